"""Millrace: finds and removes the data bottleneck of deep-learning training.

    from millrace import trace      # mark what a program does; `millrace trace` records it

Importing this package needs nothing but Python. docs/guide/trace-python.md.
"""

__version__ = "0.1.0"

"""The exception of the lab. Here and not in datasets.py, which needs torch: the command says so if it is missing."""


class LabError(Exception):
    """A sentence for the user: what is wrong, and what to do."""

"""Wraps a function into a region, depending on its kind.

A plain function becomes a RegionFunction, which is implemented in C++. For a generator, each
resumption is one region, because its consumer works between the items. For a coroutine, one region
lasts from its first step to its last, including the time in which it is suspended.
"""

import functools
import inspect

from millrace import _trace


def decorate(region, function):
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(decorate(region, function.__func__))
    if inspect.isclass(function) or not callable(function):
        raise TypeError(f"a region decorates functions, not {function!r}; decorate its methods, or "
                        "use `with`")
    # A library cannot be preloaded later, so an untraced process stays untraced.
    if not _trace._preloaded():
        return function
    for applies, wrap in KINDS:
        if applies(function):
            return functools.wraps(function)(wrap(region, function))
    return functools.update_wrapper(_trace.RegionFunction(region, function), function)


def wrap_generator(region, function):
    def traced(*arguments, **keywords):
        generator = function(*arguments, **keywords)
        resume, given = generator.send, None
        while True:
            with region:
                try:
                    item = resume(given)
                except StopIteration as end:
                    return end.value
            try:
                resume, given = generator.send, (yield item)
            except GeneratorExit:
                generator.close()
                raise
            except BaseException as error:  # thrown into the wrapper; pass it on to the generator
                resume, given = generator.throw, error

    return traced


def wrap_coroutine(region, function):
    async def traced(*arguments, **keywords):
        # begin() and not `with region`: tasks of one thread do not end in the reverse order of
        # their start.
        with region.begin():
            return await function(*arguments, **keywords)

    return traced


def wrap_async_generator(region, function):
    async def traced(*arguments, **keywords):
        generator = function(*arguments, **keywords)
        resume, given = generator.asend, None
        while True:
            with region.begin():
                try:
                    item = await resume(given)
                except StopAsyncIteration:
                    return
            try:
                resume, given = generator.asend, (yield item)
            except GeneratorExit:
                await generator.aclose()
                raise
            except BaseException as error:
                resume, given = generator.athrow, error

    return traced


KINDS = ((inspect.isasyncgenfunction, wrap_async_generator),
         (inspect.iscoroutinefunction, wrap_coroutine),
         (inspect.isgeneratorfunction, wrap_generator))

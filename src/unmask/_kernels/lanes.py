"""Eight float32 numbers that travel together through one SIMD register: the type `Lanes`.

A block of one-vs-all problems is stored with the label dimension contiguous, so that one entry of
the features meets eight labels in one instruction. Plain loops over eight columns do not become
such instructions (the compiler cannot rule out that arrays overlap), hence an explicit type:

    x = load(matrix, row, group)      columns 8·group … 8·group+7 of one row of a C-ordered matrix
    x = spread(scalar)                the same number in every lane
    x + y, x - y, x * y               lane by lane; a product that feeds a sum is fused
    larger(x, y), smaller(x, y)       lane by lane
    above(x, y)                       an integer whose bit j says x[j] > y[j]
    where_above(x, y, yes, no)        yes[j] where x[j] > y[j], else no[j]
    exponential(x)                    eˣ to float32 accuracy for |x| ≤ 87
    logarithm_of_one_plus(x)          ln(1 + x) to float32 accuracy for 0 ≤ x ≤ 1
    store(matrix, row, group, x)
    prefetch(array, position)         have array[position] in the cache when it is needed

Everything is elementwise, so what happens in one lane never depends on its neighbours.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending, types
from numba.extending import models, overload, register_model

from unmask._kernels.compiling import njit

WIDTH = 8

intrinsic: Any = extending.intrinsic  # what it decorates is called with other arguments

_FLOATS = ir.VectorType(ir.FloatType(), WIDTH)
_INTS = ir.VectorType(ir.IntType(32), WIDTH)
_CONTRACT = ("contract", "nsz")


class LanesType(types.Type):
    """The numba type of eight float32 lanes."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


LANES = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _FLOATS)


def _place(context, builder, signature, args):
    """The address of `WIDTH` columns of a row."""
    matrix = context.make_array(signature.args[0])(context, builder, args[0])
    row, group = (builder.sext(a, ir.IntType(64)) if a.type.width < 64 else a for a in args[1:3])
    columns = builder.extract_value(matrix.shape, 1)
    offset = builder.add(builder.mul(row, columns), builder.mul(group, group.type(WIDTH)))
    return builder.bitcast(builder.gep(matrix.data, [offset]), _FLOATS.as_pointer())


@intrinsic
def load(typing_context, matrix, row, group):
    """Eight neighbouring columns of a row."""

    def code(context, builder, signature, args):
        return builder.load(_place(context, builder, signature, args), align=4)

    return LANES(matrix, row, group), code


@intrinsic
def store(typing_context, matrix, row, group, lanes):
    """Overwrite eight neighbouring columns of a row."""

    def code(context, builder, signature, args):
        builder.store(args[3], _place(context, builder, signature, args), align=4)
        return context.get_dummy_value()

    return types.void(matrix, row, group, lanes), code


@intrinsic
def spread(typing_context, scalar):
    """One number in every lane."""

    def code(context, builder, signature, args):
        nothing = ir.Constant(_FLOATS, ir.Undefined)
        first = builder.insert_element(nothing, args[0], ir.IntType(32)(0))
        return builder.shuffle_vector(first, nothing, ir.Constant(_INTS, [0] * WIDTH))

    return LANES(types.float32), code


@intrinsic
def above(typing_context, left, right):
    """Bit j of the result says left[j] > right[j]."""

    def code(context, builder, signature, args):
        bits = builder.fcmp_ordered(">", *args)
        return builder.zext(builder.bitcast(bits, ir.IntType(WIDTH)), ir.IntType(32))

    return types.uint32(left, right), code


@intrinsic
def where_above(typing_context, left, right, yes, no):
    """yes[j] where left[j] > right[j], else no[j]."""

    def code(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[2], args[3])

    return LANES(LANES, LANES, LANES, LANES), code


@intrinsic
def prefetch(typing_context, array, position):
    """Ask for `array[position]` to be in the cache soon; no harm where there is no such element."""

    def code(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        position = builder.sext(args[1], ir.IntType(64)) if args[1].type.width < 64 else args[1]
        place = builder.bitcast(builder.gep(data, [position]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        signature = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", (place.type,), signature)
        builder.call(ask, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, position), code


@intrinsic
def lowest_bit(typing_context, bits):
    """The position of the lowest set bit of a number that is not zero."""

    def code(context, builder, signature, args):
        return builder.zext(builder.cttz(args[0], ir.IntType(1)(1)), ir.IntType(64))

    return types.int64(types.uint32), code


def _elementwise(build):
    """An intrinsic (Lanes, Lanes) → Lanes from a function of (builder, left, right)."""

    @intrinsic
    def operation(typing_context, left, right):
        def code(context, builder, signature, args):
            return build(builder, *args)

        return LANES(LANES, LANES), code

    return operation


larger = _elementwise(lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y))
smaller = _elementwise(lambda b, x, y: b.select(b.fcmp_ordered("<", x, y), x, y))
_add = _elementwise(lambda b, x, y: b.fadd(x, y, flags=_CONTRACT))
_subtract = _elementwise(lambda b, x, y: b.fsub(x, y, flags=_CONTRACT))
_multiply = _elementwise(lambda b, x, y: b.fmul(x, y, flags=_CONTRACT))
_divide = _elementwise(lambda b, x, y: b.fdiv(x, y))


@overload(operator.add)
def _lanes_add(x, y):
    return (lambda x, y: _add(x, y)) if x is LANES and y is LANES else None


@overload(operator.sub)
def _lanes_subtract(x, y):
    return (lambda x, y: _subtract(x, y)) if x is LANES and y is LANES else None


@overload(operator.mul)
def _lanes_multiply(x, y):
    return (lambda x, y: _multiply(x, y)) if x is LANES and y is LANES else None


@overload(operator.truediv)
def _lanes_divide(x, y):
    return (lambda x, y: _divide(x, y)) if x is LANES and y is LANES else None


@intrinsic
def _power_of_two(typing_context, exponent):
    """2^k for lanes that hold whole numbers k: the exponent bits of a float32."""

    def code(context, builder, signature, args):
        integer = builder.fptosi(args[0], _INTS)
        biased = builder.add(integer, ir.Constant(_INTS, [127] * WIDTH))
        return builder.bitcast(builder.shl(biased, ir.Constant(_INTS, [23] * WIDTH)), _FLOATS)

    return LANES(LANES), code


@njit(cache=True, nogil=True, inline="always")
def number(value):
    """A constant in every lane."""
    return spread(np.float32(value))


@njit(cache=True, nogil=True)
def exponential(x):
    """eˣ = 2^k · e^r with r = x − k ln 2 in [−½ ln 2, ½ ln 2] and a polynomial for e^r."""
    x = larger(number(-87.0), smaller(number(87.0), x))
    shifter = number(12582912.0)  # 1.5 · 2²³: adding it rounds to a whole number
    k = _subtract_exactly(_add_exactly(x * number(1.4426950408889634), shifter), shifter)
    r = x - k * number(0.693359375) + k * number(2.12194440e-4)
    tail = number(1.0 / 720.0) * r + number(1.0 / 120.0)
    for coefficient in (1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0):
        tail = tail * r + number(coefficient)
    return tail * _power_of_two(k)


_add_exactly = _elementwise(lambda b, x, y: b.fadd(x, y))
_subtract_exactly = _elementwise(lambda b, x, y: b.fsub(x, y))


@njit(cache=True, nogil=True)
def logarithm_of_one_plus(x):
    """ln(1 + x) = 2 artanh(x / (2 + x)), whose series converges fast for 0 ≤ x ≤ 1."""
    q = x / (number(2.0) + x)
    square = q * q
    tail = number(1.0 / 13.0)
    for coefficient in (1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0):
        tail = tail * square + number(coefficient)
    return number(2.0) * q * tail

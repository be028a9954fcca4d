"""The machine's kernel: runs the code of a formula (machine.py) for many rows.

An instruction is (operation, target, a, b), each a register but for jumps, whose b is where to go on. Every register has
an integer, a float and whether it is absent; which of the two numbers counts is known when the code is made. A row for
which anything out of the ordinary happens (division by zero, a number that int64 or float64 cannot hold exactly, a
value outside a domain) stops and is marked doubtful: the definition decides it.
"""

# Numba checks the arithmetic of kernels; to mypy, NumPy's scalars and Python's numbers do not mix.

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tocsin.index.jit import lean_kernel

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

(
    ADD_I, SUB_I, MUL_I, MOD_I, DIV_I, ADD_F, SUB_F, MUL_F, DIV_F, MOD_F,
    FLOAT_OF, EXACT_FLOAT_OF, WHOLE_OF, EQ_I, NE_I, LT_I, LE_I, EQ_F, NE_F, LT_F, LE_F,
    PRESENT, ABSENT, JUMP, JUMP_IF, JUMP_UNLESS, JUMP_IF_ABSENT, MOVE, MAKE_ABSENT, SET,
    AT_LEAST_I, AT_MOST_I, AT_LEAST_F, AT_MOST_F,
) = range(34)  # fmt: skip

_EXACT = 2**53
_FITS = 2.0**62  # an estimate of a product below this cannot have overflowed


@lean_kernel
def run(
    code: Int64s,
    ints: Int64s,
    floats: Floats,
    absents: Bools,
    whole_inputs: Int64s,
    whole_columns: Int64s,
    float_inputs: Int64s,
    float_columns: Floats,
    input_absent: Bools,
    result: int,
    out_ints: Int64s,
    out_floats: Floats,
    out_absent: Bools,
    doubtful: Bools,
) -> None:
    """Compute the result register for each row.

    ints, floats, absents: the registers, constants set. whole_columns[k, row] goes to register whole_inputs[k], and
    float_columns[k, row] to float_inputs[k]; input_absent has a line for each of both, the whole ones first.
    """
    whole, real = len(whole_inputs), len(float_inputs)
    for row in range(len(doubtful)):
        for k in range(whole):
            ints[whole_inputs[k]] = whole_columns[k, row]
            absents[whole_inputs[k]] = input_absent[k, row]
        for k in range(real):
            floats[float_inputs[k]] = float_columns[k, row]
            absents[float_inputs[k]] = input_absent[whole + k, row]
        at = 0
        doubt = False
        while at < len(code):
            op, to, a, b = code[at, 0], code[at, 1], code[at, 2], code[at, 3]
            at += 1
            if op <= MOD_F:
                gone = absents[a] or absents[b]
                absents[to] = gone
                if gone:
                    continue
                if op <= MOD_I:
                    x, y = ints[a], ints[b]
                    z = 0
                    if op == ADD_I:
                        z = x + y
                        doubt = ((x ^ z) & (y ^ z)) < 0
                    elif op == SUB_I:
                        z = x - y
                        doubt = ((x ^ y) & (x ^ z)) < 0
                    elif op == MUL_I:
                        z = x * y
                        doubt = abs(float(x) * float(y)) >= _FITS
                    elif y == 0:
                        doubt = True
                    else:
                        z = 0 if y == -1 else x % y
                    if doubt:
                        break
                    ints[to] = z
                    continue
                if op == DIV_I:
                    i, j = ints[a], ints[b]
                    if j == 0 or i > _EXACT or i < -_EXACT or j > _EXACT or j < -_EXACT:
                        doubt = True
                        break
                    floats[to] = float(i) / float(j) + 0.0
                    continue
                p, q = floats[a], floats[b]
                if op == ADD_F:
                    r = p + q
                elif op == SUB_F:
                    r = p - q
                elif op == MUL_F:
                    r = p * q
                elif q == 0.0:
                    doubt = True
                    break
                elif op == DIV_F:
                    r = p / q
                else:
                    r = p % q
                r += 0.0
                if not math.isfinite(r):
                    doubt = True
                    break
                floats[to] = r
            elif op == FLOAT_OF or op == EXACT_FLOAT_OF:
                value = ints[a]
                absents[to] = absents[a]
                if op == EXACT_FLOAT_OF and not absents[a] and (value > _EXACT or value < -_EXACT):
                    doubt = True
                    break
                floats[to] = float(value)
            elif op == WHOLE_OF:
                absents[to] = absents[a]
                if not absents[a]:
                    number = floats[a]
                    if number != math.floor(number) or number > _EXACT or number < -_EXACT:
                        doubt = True
                        break
                    ints[to] = int(number)
            elif op <= LE_F:
                absents[to] = False
                held = False
                if not (absents[a] or absents[b]):
                    if op == EQ_I:
                        held = ints[a] == ints[b]
                    elif op == NE_I:
                        held = ints[a] != ints[b]
                    elif op == LT_I:
                        held = ints[a] < ints[b]
                    elif op == LE_I:
                        held = ints[a] <= ints[b]
                    elif op == EQ_F:
                        held = floats[a] == floats[b]
                    elif op == NE_F:
                        held = floats[a] != floats[b]
                    elif op == LT_F:
                        held = floats[a] < floats[b]
                    else:
                        held = floats[a] <= floats[b]
                ints[to] = 1 if held else 0
            elif op == PRESENT:
                absents[to] = False
                ints[to] = 0 if absents[a] else 1
            elif op == ABSENT:
                absents[to] = False
                ints[to] = 1 if absents[a] else 0
            elif op == JUMP:
                at = b
            elif op == JUMP_IF:
                if ints[a] != 0:
                    at = b
            elif op == JUMP_UNLESS:
                if ints[a] == 0:
                    at = b
            elif op == JUMP_IF_ABSENT:
                if absents[a]:
                    at = b
            elif op == MOVE:
                ints[to], floats[to], absents[to] = ints[a], floats[a], absents[a]
            elif op == MAKE_ABSENT:
                absents[to] = True
            elif op == SET:
                ints[to] = a
                absents[to] = False
            elif not absents[a]:
                if op == AT_LEAST_I:
                    doubt = ints[a] < ints[b]
                elif op == AT_MOST_I:
                    doubt = ints[a] > ints[b]
                elif op == AT_LEAST_F:
                    doubt = floats[a] < floats[b]
                else:
                    doubt = floats[a] > floats[b]
                if doubt:
                    break
        doubtful[row] = doubt
        out_ints[row] = ints[result]
        out_floats[row] = floats[result]
        out_absent[row] = absents[result] or doubt

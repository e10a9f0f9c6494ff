"""Steering of one event: a model's probability is mapped to a better one, learnt from the outcomes so far.

Seven answers are mixed: the probability itself, a smooth curve and a free curve that forget slowly, two such
curves that forget fast (`curves`), the running mean of the outcomes in its bin, and its temperature curve,
the logit times a factor. They are mixed twice: by Vovk's aggregating algorithm (`mixing`), with weights by
squared error, and by Bayes' rule, with weights by log loss and with an intercept that follows the outcomes.
Both mixtures are mixed once more by Vovk's algorithm. Less is learnt from an outcome that comes late
(`lateness`). Curves then learn from the answers that they would give now, and weights from the answers that
were given.

With outcomes in time, the sum of T squared errors exceeds that of the probabilities themselves by at most
ln(T + 6) + ln(1 + T/99)/2, and that of each other answer by ln(7)/2 more (docs/theory.md, Theorem 17c).

A *state* is one flat array (STATE). `steer` answers a question: it writes the answers into the ticket at the
front, counts the event, and has `lateness` begin a batch. `learn` takes in the outcome of the round whose
ticket is at the front, and writes everything behind it; where the outcome is late it also brings the curves'
answers in the ticket up to date. Other questions may come in between. Then whoever asks keeps copies of
tickets, and puts one back before `learn`: wrappers, `replaying`, `trust` and `combining`. In a state behind a
machine, `ask` and `settle` of `rounds_of` do both, with the machine's round.

What always holds between two calls: EVENTS is ROUNDS and the forecasts asked for; the weights of each mixture
add up to 1, but for rounding; and FEATURES and KNOTS hold nothing that is read again. Wrappers keep states in
pickles, and the engine keeps them in ledgers (`engine/keys/storing.py`). So whoever changes the fields or
their order raises STATE_FORMAT. All constants of learning are part of the answers, down to the last bit,
since every forecast depends on all before it; only COMPILING is free.

References
----------
Vovk (1990, 1998), Herbster and Warmuth (1998), see `mixing`; Krichevsky and Trofimov (1981) for the distance
from 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numba import types

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import Address, Entry, interpreted_first, kernel_part
from onlinecal.elementary import exponential, logarithm
from onlinecal.forecasters.binary.cells import clip
from onlinecal.forecasters.binary.compiled import machine_for
from onlinecal.forecasters.rules import DONE, NO_ROOM, Rules
from onlinecal.layout import Layout
from onlinecal.steering import curves, lateness, mixing

N_ANSWERS = 7
N_BINS = 20
PRIOR = 0.4, 0.06, 0.06, 0.06, 0.06, 0.06, 0.3
"""The weights at the start; the share of the weights that is given out anew is divided by them, too. Most
models are as sure as they should be, or too sure in one way, which few outcomes show."""
SHARE_DELAY = 100.0
"""In round t, 1/(t + SHARE_DELAY) of the weights by squared error is given out anew: a quarter by the prior,
the rest like the weights by log loss, which tell answers about rare events apart. With 1/t nothing would be
learnt from the first outcomes. t counts outcomes by the part of them that was learnt."""
SHIFT_RATE = 0.03
"""An error of 1 moves the intercept of the last stage by so many logits."""
LAST_SHARE = 4.0
"""In round t, LAST_SHARE/(t + 2 LAST_SHARE) of the last stage's weights is given out anew, so that it can
follow sudden changes."""
LEAST_DISTANCE = 0.25
"""The forecast is at least this far from 0 and 1, divided by the number of forecasts asked for."""
FARTHEST_LOGIT, LARGEST_SLOPE = 11.5, 8.0
"""In the temperature curve logits and slopes that are farther from 0 count as these."""
COLDEST, HOTTEST = -4.0, 3.0
"""The limits of the logarithm of the temperature curve's factor."""
TEMPERATURE_VARIANCE, TEMPERATURE_RATE = 16.0, 3e-4
"""The prior variance of that logarithm, and how fast it is forgotten."""
FARTHEST_STEP = 1.0
"""One outcome moves that logarithm by at most this, since the filter's linear approximation holds no
farther."""

STATE = Layout()
"""A steering state. The ticket of the open forecast comes first, so that it can be kept while it waits."""
CELL_LOWER = STATE.field("lower end of the cell", "position")
CELL_STEP = STATE.field("width of the cell", "position")
FORECAST = STATE.field("the forecast", "probability")
GIVEN = STATE.field("what was given: the forecast, unless an answer was completed", "probability")
TICKET_ALONE = STATE.end
"""The length of the ticket of a state without steering, where the probability that comes is a hint
already."""
ANSWERS = STATE.field("the seven answers; the first is the probability itself", "probability", N_ANSWERS)
STRETCHED = STATE.field("half the stretched logit of the probability", "logit")
LAST = STATE.field("the mixture by squared error, the shifted one by log loss", "probability", 2)
POOLED = STATE.field("the mixture by log loss before it is shifted", "probability")
ASKED = STATE.field("events when the forecast was asked for", "count")
TICKET = STATE.end
"""The length of the ticket of a state with steering."""
ROUNDS = STATE.field("rounds learnt", "count")
EVENTS = STATE.field("forecasts asked for and outcomes learnt", "count")
INTERCEPT = STATE.field("the intercept that follows the outcomes", "logit")
LOWEST = STATE.field("the logit of 0: the lowest that came", "logit")
HIGHEST = STATE.field("the logit of 1: the highest that came", "logit")
WEIGHTS = STATE.field("weights of the answers by squared error", "weight", N_ANSWERS)
LAST_WEIGHTS = STATE.field("weights of the two mixtures", "weight", 2)
LOG_WEIGHTS = STATE.field("weights of the answers by log loss", "weight", N_ANSWERS)
FEATURES = STATE.field("room for the features of two curves", "scratch", 2 * curves.N_FEATURES)
KNOTS = STATE.field("room for the knots of two curves", "scratch", 2 * curves.N_TOUCHED)
CURVES = STATE.field(
    "a smooth and a free curve, slow and fast", "curve", 2 * (curves.SMOOTH_LENGTH + curves.FREE_LENGTH)
)
SUMS = STATE.field("sums of the outcomes of bins", "sum", N_BINS)
COUNTS = STATE.field("how many outcomes bins had", "count", N_BINS)
TEMPERATURE = STATE.field("the factor's logarithm and its variance", "logarithm", 2)
LATENESS = STATE.field("the account of outcomes that come together", "account", lateness.account_size(1))
SIZE = STATE.end

# Behind a machine a state ends in an account of what was given in place of forecasts, in units of 1/PARTS: by
# how much it was farther from the charged points than the forecasts, and how far it was from these.
FARTHER, AWAY = -2, -1
ACCOUNT = 2
PARTS = 1 << 26


@kernel_part
def is_steered(state: Any) -> bool:
    """Whether a state has steering, and not only a ticket and the account."""
    return len(state) > TICKET_ALONE + ACCOUNT


def ticket_length(state: Floats) -> int:
    """The length of the ticket at the front of a state that belongs to a machine."""
    return TICKET if is_steered(state) else TICKET_ALONE


def new_steering() -> Floats:
    """The state before the first round."""
    state = np.zeros(SIZE)
    state[LAST_WEIGHTS : LAST_WEIGHTS + 2] = mixing.HALVES
    for weights in (WEIGHTS, LOG_WEIGHTS):
        state[weights : weights + N_ANSWERS] = PRIOR
    state[TEMPERATURE + 1] = TEMPERATURE_VARIANCE
    state[LOWEST], state[HIGHEST] = -curves.EDGE, curves.EDGE
    for i in range(2):
        at = CURVES + i * (curves.SMOOTH_LENGTH + curves.FREE_LENGTH)
        curves.start_smooth(state, at)
        curves.start_free(state, at + curves.SMOOTH_LENGTH)
    return state


@kernel_part
def within(p: float) -> float:
    """The value of p moved into [0, 1]; NaN, no opinion, counts as 1/2."""
    p = float(p)
    if p != p:
        return 0.5
    return clip(p, 0.0, 1.0)


@kernel_part
def bin_of(p: float, n_bins: int) -> int:
    """The number of the equal-width bin that holds p; 1 belongs to the last bin."""
    return min(int(p * n_bins), n_bins - 1)


@kernel_part
def bin_mean(total: float, count: float, bin: int, n_bins: int) -> float:
    """The mean outcome of a bin, with its centre counted as one more outcome."""
    return (total + (bin + 0.5) / n_bins) / (count + 1.0)


@kernel_part
def consult(state: Any) -> None:
    """Write the answers of the four curves, for the features and knots of the ticket's probability."""
    u = state[STRETCHED]
    for i in range(2):
        at = CURVES + i * (curves.SMOOTH_LENGTH + curves.FREE_LENGTH)
        state[ANSWERS + 1 + 2 * i] = curves.sigmoid(curves.smooth_logit(state, at, FEATURES))
        state[ANSWERS + 2 + 2 * i] = curves.sigmoid(
            curves.free_logit(state, at + curves.SMOOTH_LENGTH, KNOTS, u)
        )


@kernel_part
def steer(state: Any, p: float) -> float:
    """The steered probability for p; the ticket is left in the state."""
    lateness.begin_batch(state, LATENESS, 1)
    u = curves.stretched(p, state[LOWEST], state[HIGHEST])
    state[EVENTS] += 1.0
    state[ANSWERS], state[STRETCHED], state[ASKED] = p, u, state[EVENTS]
    curves.write_features(state, FEATURES, p, u)
    curves.write_knots(state, KNOTS, p, u)
    consult(state)
    b = bin_of(p, N_BINS)
    state[ANSWERS + 5] = bin_mean(state[SUMS + b], state[COUNTS + b], b, N_BINS)
    state[ANSWERS + 6] = curves.sigmoid(tempered(state, u))
    state[LAST] = mixing.mixed_answer(state, ANSWERS, WEIGHTS, N_ANSWERS)
    state[POOLED] = mixing.mean_answer(state, ANSWERS, LOG_WEIGHTS, N_ANSWERS)
    state[LAST + 1] = shifted(state[POOLED], state[INTERCEPT])
    least = LEAST_DISTANCE / (lateness.asked_for(state, LATENESS, state[ROUNDS], state[EVENTS]) + 1.0)
    return clip(mixing.mixed_answer(state, LAST, LAST_WEIGHTS, 2), least, 1.0 - least)


@kernel_part
def tempered(state: Any, u: float) -> float:
    """The logit of the temperature curve's answer."""
    logit = clip(exponential(u) - exponential(-u), -FARTHEST_LOGIT, FARTHEST_LOGIT)
    return float(exponential(state[TEMPERATURE]) * logit)


@kernel_part
def shifted(answer: float, intercept: float) -> float:
    """An answer whose logit is moved by the intercept."""
    inner = clip(answer, 1e-6, 1.0 - 1e-6)
    return curves.sigmoid(logarithm(inner / (1.0 - inner)) + intercept)


@kernel_part
def learn(state: Any, outcome: float) -> float:
    """Let weights, intercept, bin and curves learn the ticket's outcome; returns the weights' part of it."""
    rounds, p, u = state[ROUNDS], state[ANSWERS], state[STRETCHED]
    late, answer = state[EVENTS] - state[ASKED], state[ANSWERS + 3]
    curves.write_features(state, FEATURES, p, u)
    curves.write_knots(state, KNOTS, p, u)
    if late > 0.0:
        fast = CURVES + curves.SMOOTH_LENGTH + curves.FREE_LENGTH
        answer = curves.sigmoid(curves.smooth_logit(state, fast, FEATURES))
    lateness.take_note(state, LATENESS, 0, outcome - answer)
    judged, part = lateness.parts_learnt(state, LATENESS, 1, late)
    share = judged / (judged * rounds + SHARE_DELAY)
    mixing.reweigh(state, ANSWERS, WEIGHTS, PRIOR, outcome, mixing.ETA * judged, 0.25 * share)
    for i in range(N_ANSWERS):
        state[WEIGHTS + i] += 0.75 * share * (state[LOG_WEIGHTS + i] - state[WEIGHTS + i])
    share = judged / (rounds + 2.0)
    mixing.reweigh_by_likelihood(state, ANSWERS, LOG_WEIGHTS, PRIOR, outcome, judged, share)
    share = judged * LAST_SHARE / (rounds + 2.0 * LAST_SHARE)
    mixing.reweigh(state, LAST, LAST_WEIGHTS, mixing.HALVES, outcome, mixing.ETA * judged, share)
    state[INTERCEPT] += judged * SHIFT_RATE * (outcome - shifted(state[POOLED], state[INTERCEPT]))
    b = bin_of(p, N_BINS)
    state[SUMS + b] += part * outcome
    state[COUNTS + b] += part
    learn_temperature(state, u, outcome, part)
    if late > 0.0:
        consult(state)
    for i in range(2):
        at, answers = CURVES + i * (curves.SMOOTH_LENGTH + curves.FREE_LENGTH), ANSWERS + 1 + 2 * i
        smooth, free = curves.SMOOTH_RATES[i], curves.FREE_RATES[i]
        curves.learn_smooth(state, at, FEATURES, state[answers], outcome, smooth, part)
        curves.learn_free(state, at + curves.SMOOTH_LENGTH, KNOTS, state[answers + 1], outcome, free, part)
        part = math.sqrt(part)
    if 0.0 < p < 1.0:
        logit = exponential(u) - exponential(-u)
        state[LOWEST] = min(state[LOWEST], logit)
        state[HIGHEST] = max(state[HIGHEST], logit)
    state[ROUNDS] = rounds + 1.0
    state[EVENTS] += 1.0
    return judged


@kernel_part
def learn_temperature(state: Any, u: float, outcome: float, part: float) -> None:
    """Let the temperature curve learn the outcome, or a part of it, by an extended Kalman filter."""
    logit = tempered(state, u)
    answer, slope = curves.sigmoid(logit), clip(logit, -LARGEST_SLOPE, LARGEST_SLOPE)
    error = outcome - answer
    variance = state[TEMPERATURE + 1]
    scale = 1.0 + part * curves.curvature(answer, error) * slope * slope * variance
    step = clip(part * variance * slope * error / scale, -FARTHEST_STEP, FARTHEST_STEP)
    state[TEMPERATURE] = clip(state[TEMPERATURE] + step, COLDEST, HOTTEST)
    learnt = variance / scale
    state[TEMPERATURE + 1] = learnt + part * TEMPERATURE_RATE * (TEMPERATURE_VARIANCE - learnt)


class Steered:
    """A grid machine behind steering: entry points, which are interpreted first.

    ask(memory, state, raw) -> the forecast; its ticket is left in the state.
    settle(memory, state, outcome) -> DONE or NO_ROOM: charge the ticket, learn to steer.

    What is given in place of the forecast is written to GIVEN of the ticket, before it is settled.
    """

    ask: ClassVar[Callable[[Ints, Floats, float], float]]
    settle: ClassVar[Callable[[Ints, Floats, int], int]]


@kernel_part
def guide_of(state: Any, raw: float) -> float:
    """What is made of a model's probability, NaN is 1/2: in a state without steering it as it is."""
    return steer(state, within(raw)) if is_steered(state) else within(raw)


def learn_outcome(state: Floats, outcome: int) -> None:
    """Learn the ticket's outcome."""
    learn(state, float(outcome))


class Alone:
    """Steering without a machine: entry points, which are interpreted first.

    hint_of(state, raw) -> what is made of a model's probability, see `guide_of`.
    learn_outcome(state, outcome): learn the ticket's outcome.
    """

    hint_of: ClassVar[Callable[[Floats, float], float]]
    learn_outcome: ClassVar[Callable[[Floats, int], None]]


TABLE, FLOATS = types.int64[::1], types.float64[::1]
COMPILING = 3.0
"""Seconds that it takes to compile an entry point."""

ALONE = interpreted_first(
    Alone,
    Address(__name__, "ALONE"),
    hint_of=Entry(guide_of, 1, (FLOATS, types.float64), compiling=COMPILING),
    learn_outcome=Entry(learn_outcome, 1, (FLOATS, types.int64), compiling=COMPILING),
)


@kernel_part
def book_given(state: Any, point: float, forecast: float, given: float) -> None:
    """Add a round to the account of what was given in place of forecasts; rounded up.

    The certificate bounds the distance from forecasts to charged points, plus that from these to calibration.
    With the difference in the first part it is one of what was given (docs/theory.md, Fact 4b).
    """
    state[FARTHER] += math.ceil((abs(given - point) - abs(forecast - point)) * PARTS)
    state[AWAY] += math.ceil(abs(given - forecast) * PARTS)


@cache
def rounds_of(rules: Rules) -> tuple[Callable[..., float], Callable[..., int]]:
    """How a round of a machine's rules is opened and settled, see `Steered`: for kernels."""
    announce, charge, has_room, point_of = rules.announce, rules.settle, rules.has_room, rules.point

    @kernel_part
    def ask(memory: Ints, state: Floats, raw: float) -> float:
        lower, step, forecast, _ = announce(memory, guide_of(state, raw), 0.0)
        state[CELL_LOWER], state[CELL_STEP] = lower, step
        state[FORECAST] = state[GIVEN] = forecast
        return forecast

    @kernel_part
    def settle(memory: Ints, state: Floats, outcome: int) -> int:
        if not has_room(memory):
            return NO_ROOM
        lower, step = int(state[CELL_LOWER]), int(state[CELL_STEP])
        forecast, given = state[FORECAST], state[GIVEN]
        if given != forecast:
            book_given(state, point_of(memory, lower, step, outcome, forecast), forecast, given)
        charge(memory, lower, step, outcome, forecast)
        if is_steered(state):
            learn(state, float(outcome))
        return DONE

    return ask, settle


@cache
def steered(form: int, hinted: bool) -> type[Steered]:
    """The entry points for the machine of a FORMAT, with hints or without."""
    ask, settle = rounds_of(machine_for(form).rules_for(hinted))
    return interpreted_first(
        Steered,
        Address(__name__, "steered", (form, hinted)),
        ask=Entry(ask, 2, (TABLE, FLOATS, types.float64), compiling=COMPILING),
        settle=Entry(settle, 2, (TABLE, FLOATS, types.int64), compiling=COMPILING),
    )

"""The ways in which the kernel is broken, each a small change of one line or two."""

from typing import NamedTuple

REFERENCE = ("kernel/test_reference.py",)
RATES = ("kernel/test_rates.py",)
RANDOM = ("kernel/test_random.py",)
METRIC = ("kernel/test_metric.py",)
INTEGRATORS = ("kernel/test_integrators.py",)
LADDER = ("kernel/test_ladder.py",)
RECORD = ("kernel/test_record.py",)
CLOCKS = ("kernel/test_clocks.py",)
REFINEMENT = ("kernel/test_refinement.py",)
FAULTS = ("kernel/test_faults.py",)
REPARAMETRISATION = ("kernel/test_reparametrisation.py",)
LAYOUT = ("kernel/test_layout.py",)
ADAPTATION = ("kernel/test_adaptation.py",)
DISCRETE_HMC = ("paper/test_discrete_hmc.py",)


class Mutant(NamedTuple):
    """One change: `old` becomes `new` in a file; `tests` are asked first.

    The file's path is seen from the package's folder.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = REFERENCE


MUTANTS = (
    # Rates.
    Mutant(
        "flip rate 1 % too high",
        "kernel/rates.py",
        "return max(0.0, g_behind - g_ahead)",
        "return max(0.0, 1.01 * g_behind - g_ahead)",
        RATES,
    ),
    Mutant(
        "no flips",
        "kernel/rates.py",
        "return max(0.0, g_behind - g_ahead)",
        "return 0.0 * (g_behind - g_ahead)",
        RATES,
    ),
    Mutant(
        "flips not reduced by the flow ahead",
        "kernel/rates.py",
        "return max(0.0, g_behind - g_ahead)",
        "return max(0.0, g_behind + 0.0 * g_ahead)",
        RATES,
    ),
    Mutant(
        "sqrt g without its root",
        "kernel/rates.py",
        "math.exp(min(0.5 * log_ratio, LARGEST_LOG_RATE))",
        "math.exp(min(0.51 * log_ratio, LARGEST_LOG_RATE))",
        RATES,
    ),
    Mutant(
        "metropolis g exceeds 1",
        "kernel/rates.py",
        "return math.exp(min(log_ratio, 0.0))",
        "return math.exp(min(log_ratio, 0.01))",
        RATES,
    ),
    Mutant(
        "barker g wrong above 1",
        "kernel/rates.py",
        "return 2.0 / (1.0 + math.exp(-log_ratio))",
        "return 2.0 / (1.0 + math.exp(-1.01 * log_ratio))",
        RATES,
    ),
    Mutant(
        "own g not mirrored above 1",
        "kernel/rates.py",
        "return math.exp(min(log_ratio + math.log(g_inverse), LARGEST_LOG_RATE))",
        "return math.exp(min(0.99 * log_ratio + math.log(g_inverse), LARGEST_LOG_RATE))",
        RATES,
    ),
    Mutant(
        "infinite energies accepted",
        "kernel/rates.py",
        "    if not math.isfinite(energy_to):\n        return -math.inf",
        "    if not math.isfinite(energy_to):\n        return 0.0",
        RATES,
    ),
    # Random numbers.
    Mutant(
        "uniform numbers may be 0",
        "kernel/random.py",
        "return (np.float64(next_word(rng) >> np.uint64(12)) + 0.5) * TO_UNIT",
        "return np.float64(next_word(rng) >> np.uint64(12)) * TO_UNIT",
        RANDOM,
    ),
    Mutant(
        "uniform numbers biased",
        "kernel/random.py",
        "return (np.float64(next_word(rng) >> np.uint64(12)) + 0.5) * TO_UNIT",
        "return (np.float64(next_word(rng) >> np.uint64(12)) + 0.5) * TO_UNIT * 0.99",
        RANDOM,
    ),
    Mutant(
        "another generator",
        "kernel/random.py",
        "_rotate_left(s3, 45)",
        "_rotate_left(s3, 44)",
        RANDOM,
    ),
    Mutant(
        "normal numbers without tails",
        "kernel/random.py",
        "return True, tail if share > 0.0 else -tail",
        "return True, EDGES[1] if share > 0.0 else -EDGES[1]",
        RANDOM,
    ),
    Mutant(
        "normal numbers with wrong wedges",
        "kernel/random.py",
        "return above + uniform(rng) * (below - above) < 1.0, x",
        "return above < 1.0, x",
        RANDOM,
    ),
    # Momentum.
    Mutant(
        "refresh with sd 1.01",
        "kernel/metric.py",
        "        z[j] /= scale[j]\n",
        "        z[j] /= scale[j] / 1.01\n",
    ),
    Mutant(
        "partial refresh with too much noise",
        "kernel/metric.py",
        "fresh = math.sqrt(1.0 - alpha * alpha)",
        "fresh = math.sqrt(1.0 - alpha * alpha * alpha * alpha)",
        METRIC,
    ),
    Mutant(
        "partial refresh forgets the direction",
        "kernel/ladder.py",
        "p.refresh_alpha * p.direction, v",
        "p.refresh_alpha, v",
    ),
    Mutant(
        "stale energy after a refresh",
        "kernel/metric.py",
        "        total += z[j] * z[j]\n",
        "        total += 1.0\n",
    ),
    Mutant(
        "kinetic energy without its half",
        "kernel/metric.py",
        "            total += v[j] * velocity[j]\n    return 0.5 * total",
        "            total += v[j] * velocity[j]\n    return 0.505 * total",
        METRIC,
    ),
    Mutant(
        "momentum root with the wrong sign",
        "kernel/metric.py",
        "_apply_factors(p, _root_mass_factors(p), z, v)",
        "_apply_factors(p, _inverse_mass_factors(p), z, v)",
        METRIC,
    ),
    Mutant(
        "pull of the harmonic integrator off",
        "kernel/metric.py",
        "_apply_factors(p, _mass_factors(p), z, out)",
        "_apply_factors(p, _root_mass_factors(p), z, out)",
    ),
    Mutant(
        "only the last directions count",
        "kernel/metric.py",
        "out[j] += along",
        "out[j] = along",
        METRIC,
    ),
    Mutant(
        "diagonal of the metric without its square",
        "kernel/metric.py",
        "out[j] = scale[j] * scale[j] * z[j] + along",
        "out[j] = scale[j] * z[j] + along",
        METRIC,
    ),
    # Integrators.
    Mutant(
        "kick of 0.51",
        "kernel/integrators.py",
        "    if stages == 1:\n        return 0.5\n    if stages == 2:\n        return TWO",
        "    if stages == 1:\n        return 0.51\n    if stages == 2:\n        return TWO",
        INTEGRATORS,
    ),
    Mutant(
        "middle kick of two_stage",
        "kernel/integrators.py",
        "else 1.0 - 2.0 * TWO_STAGE_B",
        "else 1.0 - TWO_STAGE_B",
        INTEGRATORS,
    ),
    Mutant(
        "other constant of three_stage",
        "kernel/integrators.py",
        "THREE_STAGE_B = 0.11888010966548",
        "THREE_STAGE_B = 0.11888",
    ),
    Mutant(
        "drift without a scale",
        "kernel/integrators.py",
        "x[j] += drift_length * scale[j] * scale[j] * kicked",
        "x[j] += drift_length * scale[j] * kicked",
        METRIC,
    ),
    Mutant(
        "velocity not kicked",
        "kernel/integrators.py",
        "kicked = velocity[j] + kick_length * acceleration[j]",
        "kicked = velocity[j] + 0.0 * acceleration[j]",
        INTEGRATORS,
    ),
    Mutant(
        "stale acceleration",
        "kernel/integrators.py",
        "                apply_inverse_mass(p, grad, acceleration)\n            kick",
        "                apply_inverse_mass(p, x, scratch(p, PULL_ROW))\n            kick",
        INTEGRATORS,
    ),
    Mutant(
        "velocity of the old momentum after a partial refresh",
        "kernel/metric.py",
        "velocity[j] = alpha * velocity[j] + fresh * drawn_velocity[j]",
        "velocity[j] = drawn_velocity[j]",
        METRIC,
    ),
    Mutant(
        "velocity that a new ladder does not turn",
        "kernel/ladder.py",
        "velocity[j] = -velocity[j]",
        "velocity[j] = velocity[j]",
        INTEGRATORS,
    ),
    Mutant(
        "acceleration of the old metric",
        "kernel/chain.py",
        "        apply_inverse_mass(p, grad, acceleration)\n    p.direction",
        "        apply_inverse_mass(p, v, velocity)\n    p.direction",
        INTEGRATORS,
    ),
    Mutant(
        "rotation that does not turn the velocity",
        "kernel/integrators.py",
        "velocity[j] = cosine * velocity[j] - sine * away",
        "velocity[j] = cosine * velocity[j] + sine * away",
        INTEGRATORS,
    ),
    Mutant(
        "rotation to where the gradient is not finite",
        "kernel/integrators.py",
        "if not math.isfinite(slope):",
        "if slope == math.inf:",
        FAULTS,
    ),
    Mutant(
        "first trial step without acceleration",
        "kernel/chain.py",
        "        apply_inverse_mass(p, end_grad, end_acceleration)",
        "        apply_inverse_mass(p, end_grad, end_velocity)",
        INTEGRATORS,
    ),
    Mutant(
        "rotation that stretches",
        "kernel/integrators.py",
        "v[j] = cosine * v[j] - sine * pulled",
        "v[j] = cosine * v[j] - 1.001 * sine * pulled",
        INTEGRATORS,
    ),
    Mutant(
        "last kick forgotten in the harmonic integrator",
        "kernel/integrators.py",
        "step_size if n + 1 < num_steps else 0.5 * step_size, point, pull)",
        "step_size if n + 1 < num_steps else 0.0, point, pull)",
        INTEGRATORS,
    ),
    Mutant(
        "kick between two steps only half as long",
        "kernel/integrators.py",
        "kick_length *= 2.0\n    kick(0.5 * kick_length, v, grad)",
        "kick_length *= 1.0\n    kick(kick_length, v, grad)",
        INTEGRATORS,
    ),
    Mutant(
        "kick between two harmonic steps only half as long",
        "kernel/integrators.py",
        "kick_by_rest(p, step_size if n + 1 < num_steps else 0.5 * step_size,",
        "kick_by_rest(p, 0.5 * step_size,",
        INTEGRATORS,
    ),
    Mutant(
        "rotation of one step for all of a rung",
        "kernel/integrators.py",
        "_integrate_rotation(p, num_steps * step_size, point)",
        "_integrate_rotation(p, step_size, point)",
        INTEGRATORS,
    ),
    # The ladder.
    Mutant(
        "backward L a step short",
        "kernel/ladder.py",
        "p.num_steps * pieces, end)",
        "p.num_steps * pieces - (side < 0), end)",
    ),
    Mutant(
        "backward L as forward L",
        "kernel/ladder.py",
        "integrate(p, side * p.ladder_step / pieces",
        "integrate(p, abs(side) * p.ladder_step / pieces",
    ),
    Mutant(
        "wrong neighbour after a flip",
        "kernel/jump.py",
        "p.here += p.direction",
        "p.here += 1",
    ),
    Mutant(
        "full buffer forgets the wrong end",
        "kernel/ladder.py",
        "            p.low += 1\n        else:\n            p.high -= 1\n    level",
        "            p.high -= 1\n        else:\n            p.low += 1\n    level",
        LADDER,
    ),
    Mutant(
        "full buffer forgets nothing",
        "kernel/ladder.py",
        "if p.high - p.low + 1 == p.capacity:",
        "if p.high - p.low + 1 < 0:",
        LADDER,
    ),
    Mutant(
        "new ladder keeps the old momentum's sign",
        "kernel/ladder.py",
        "            v[j] = -v[j]",
        "            v[j] = v[j]",
    ),
    Mutant(
        "step size jittered one way",
        "kernel/ladder.py",
        "p.ladder_step = p.step_size * (1.0 + jitter)",
        "p.ladder_step = p.step_size * (1.0 + abs(jitter))",
    ),
    Mutant(
        "stale gradient after a move",
        "kernel/ladder.py",
        "raised, logp = evaluate_force(p, point)",
        "raised, logp = evaluate_force(p, (x, v, scratch_point(p)[2], velocity, point[4]))",
    ),
    Mutant(
        "divergences not counted",
        "kernel/ladder.py",
        "        p.n_diverging += 1\n",
        "        p.n_diverging += 0\n",
        FAULTS,
    ),
    Mutant(
        "level of the way back not checked",
        "kernel/ladder.py",
        "        energy = math.inf\n    _set_levels",
        "        energy = energy\n    _set_levels",
        REFINEMENT,
    ),
    Mutant(
        "refinement halves the path, not the step",
        "kernel/ladder.py",
        "p.num_steps * pieces, end)",
        "p.num_steps, end)",
        REFINEMENT,
    ),
    # Events and clocks.
    Mutant(
        "thinning without the bound of g",
        "kernel/jump.py",
        "u = uniform(random_stream(p)) * p.g_max",
        "u = uniform(random_stream(p))",
    ),
    Mutant(
        "pending flip dropped by a partial refresh",
        "kernel/clock.py",
        "if p.refresh_alpha > 0.0 and resolve_flip(p):",
        "if p.refresh_alpha > 2.0 and resolve_flip(p):",
    ),
    Mutant(
        "pending flip dropped at a ring",
        "kernel/jump.py",
        "    if p.pending_u < p.pending_g + flip_rate(p.pending_g, g_behind):",
        "    if p.pending_u < p.pending_g:",
    ),
    Mutant(
        "flip decided with a smaller u",
        "kernel/jump.py",
        "        p.pending_u = u\n",
        "        p.pending_u = 0.9 * u\n",
    ),
    Mutant(
        "refreshes half as often",
        "kernel/jump.py",
        "return exponential(random_stream(p)) / p.refresh_rate",
        "return 2.0 * exponential(random_stream(p)) / p.refresh_rate",
        CLOCKS,
    ),
    Mutant(
        "regular refreshes rounded down",
        "kernel/jump.py",
        "p.refresh_rate + uniform(rng))",
        "p.refresh_rate + 0.0 * uniform(rng))",
        CLOCKS,
    ),
    Mutant(
        "regular rings 2 % apart too far",
        "kernel/jump.py",
        "    return 1.0 / p.g_max\n",
        "    return 1.02 / p.g_max\n",
        CLOCKS,
    ),
    Mutant(
        "exponential rings at the wrong rate",
        "kernel/jump.py",
        "return exponential(random_stream(p)) / p.g_max",
        "return exponential(random_stream(p))",
        CLOCKS,
    ),
    Mutant(
        "time of a competing event not added",
        "kernel/jump.py",
        "p.next_ring = p.now + min(wait_L, wait_F)",
        "p.next_ring = min(wait_L, wait_F)",
    ),
    Mutant(
        "the later of two competing events wins",
        "kernel/jump.py",
        "p.next_event = EVENT_L if wait_L < wait_F else EVENT_F",
        "p.next_event = EVENT_L if wait_L > wait_F else EVENT_F",
    ),
    Mutant(
        "rates of the state before are kept after a move",
        "kernel/jump.py",
        "    p.entered = p.now\n    p.scheduled = 0\n\n\n@kernel_jit\ndef ring",
        "    p.entered = p.now\n\n\n@kernel_jit\ndef ring",
    ),
    Mutant(
        "a draw before the last event of its tick",
        "kernel/clock.py",
        "if min(p.next_ring, p.next_refresh) > p.tick_end:",
        "if max(p.next_ring, p.next_refresh) > p.tick_end:",
    ),
    # The record, and stops.
    Mutant(
        "holding times all alike",
        "kernel/jump.py",
        "holding[0] = p.now - p.entered",
        "holding[0] = 1.0",
        RECORD,
    ),
    Mutant(
        "holding times without the wait since a flip",
        "kernel/jump.py",
        "holding[0] = p.now - p.entered",
        "holding[0] = p.next_ring - p.now",
        RECORD,
    ),
    Mutant(
        "expected holding times without the refresh rate",
        "kernel/jump.py",
        "p.total_rate = rate_L + rate_F + p.refresh_rate",
        "p.total_rate = rate_L + rate_F",
        RECORD,
    ),
    Mutant(
        "a resumed tick begins anew",
        "kernel/chain.py",
        "        if p.in_tick == 0:\n",
        "        if p.in_tick <= 1:\n",
        RECORD,
    ),
    Mutant(
        "an interrupted event counts twice",
        "kernel/clock.py",
        "    p.n_gradients = gradients\n",
        "    p.n_gradients += 0\n",
        FAULTS,
    ),
    Mutant(
        "density that raised goes on",
        "kernel/density.py",
        "        return True, -math.inf",
        "        return False, -math.inf",
        FAULTS,
    ),
    Mutant(
        "cut draws not counted",
        "kernel/clock.py",
        "p.n_capped += 1",
        "p.n_capped += 0",
        FAULTS,
    ),
    # Discrete-time HMC.
    Mutant(
        "control rejects without a flip",
        "../examples/paper/discrete_hmc.py",
        "p.direction = -1",
        "p.direction = 1",
        DISCRETE_HMC,
    ),
    Mutant(
        "control accepts downhill only",
        "../examples/paper/discrete_hmc.py",
        "acceptance = math.exp(min(0.0, ratio))",
        "acceptance = math.exp(min(0.0, 2.0 * ratio))",
        DISCRETE_HMC,
    ),
    # Memory.
    Mutant(
        "rows that do not begin cache lines",
        "kernel/layout.py",
        "itemsize, unit = np.dtype(array.dtype).itemsize, LINE if array.is_padded else 1\n",
        "itemsize, unit = np.dtype(array.dtype).itemsize, 1\n",
        LAYOUT,
    ),
    Mutant(
        "arrays connected without a look",
        "process.py",
        "            layout.check_array(name, arrays[name], sizes)\n",
        "            layout.ARRAYS[name].lengths(sizes)\n",
        LAYOUT,
    ),
    Mutant(
        "strides not checked",
        "kernel/layout.py",
        "if any(n > 1 and a != b for",
        "if any(n > 1 and a < 0 * b for",
        LAYOUT,
    ),
    # Reparametrisations.
    Mutant(
        "no log volume in the density",
        "kernel/density.py",
        "return False, out[0] + log_volume",
        "return False, out[0] + 0.0 * log_volume",
        REPARAMETRISATION,
    ),
    Mutant(
        "no slope of the log volume",
        "kernel/reparametrisation.py",
        "scale[i] = by_shift[i] * (z[children[i]] + shift[i]) + 1.0",
        "scale[i] = by_shift[i] * (z[children[i]] + shift[i]) + 0.99",
        REPARAMETRISATION,
    ),
    Mutant(
        "the slope of the scale forgets the shift",
        "kernel/reparametrisation.py",
        "scale[i] = by_shift[i] * (z[children[i]] + shift[i]) + 1.0",
        "scale[i] = by_shift[i] * z[children[i]] + 1.0",
        REPARAMETRISATION,
    ),
    Mutant(
        "a bend of the wrong slope",
        "kernel/reparametrisation.py",
        "(2.0 * slope_middle - slope_low - slope_high) / width",
        "(1.9 * slope_middle - slope_low - slope_high) / width",
        REPARAMETRISATION,
    ),
    Mutant(
        "the inverse forgets the shift",
        "kernel/reparametrisation.py",
        "z[children[i]] = (x[children[i]] - location[i]) / scale[i] - shift[i]",
        "z[children[i]] = (x[children[i]] - location[i]) / scale[i]",
        REPARAMETRISATION,
    ),
    Mutant(
        "location parents without the shift",
        "kernel/reparametrisation.py",
        "grad[parent] += _product(_shift_coefficients(p, 1 + q), by_shift)",
        "grad[parent] += 0.0 * _product(_shift_coefficients(p, 1 + q), by_shift)",
        REPARAMETRISATION,
    ),
    Mutant(
        "draws in the coordinates of the process",
        "kernel/density.py",
        "        return forward(p, x, out)\n    for j",
        "        forward(p, x, out)\n    for j",
        REPARAMETRISATION,
    ),
    # The step size's adaptation.
    Mutant(
        "step size follows acceptance the wrong way",
        "kernel/adaptation.py",
        "eta * (target - acceptance)",
        "eta * (acceptance - target)",
        ADAPTATION,
    ),
    Mutant(
        "dual averaging without its offset",
        "kernel/adaptation.py",
        "eta = 1.0 / (count + T0)",
        "eta = 1.0 / count",
        ADAPTATION,
    ),
    Mutant(
        "dual averaging without its root",
        "kernel/adaptation.py",
        "math.sqrt(count) / GAMMA * deficit",
        "1.0 / GAMMA * deficit",
        ADAPTATION,
    ),
    Mutant(
        "averaged step size forgets too fast",
        "kernel/adaptation.py",
        "weight = count**-KAPPA",
        "weight = count**-0.5",
        ADAPTATION,
    ),
    Mutant(
        "averaged step size is the last",
        "kernel/adaptation.py",
        "return log_step, weight * log_step + (1.0 - weight) * log_average, deficit",
        "return log_step, log_step + 0.0 * log_average, deficit",
        ADAPTATION,
    ),
    Mutant(
        "refined rungs count as accepted",
        "kernel/adaptation.py",
        "stats[COLUMN.acceptance_rate] - stats[COLUMN.n_refined] / looks",
        "stats[COLUMN.acceptance_rate] - 0.0 * stats[COLUMN.n_refined] / looks",
        ADAPTATION,
    ),
    Mutant(
        "step size adapts between refreshes",
        "kernel/adaptation.py",
        "if stats[COLUMN.n_R] == 0 or p.tried == 0:",
        "if p.tried == 0:",
        ADAPTATION,
    ),
    Mutant(
        "acceptance of the last path stays",
        "kernel/adaptation.py",
        "p.accepted = 0.0",
        "p.accepted = 0.5",
        ADAPTATION,
    ),
    Mutant(
        "adapted step size beyond its bounds",
        "kernel/adaptation.py",
        "min(max(math.exp(log_step), p.shortest_step), p.longest_step)",
        "math.exp(log_step)",
        ADAPTATION,
    ),
    Mutant(
        "kept log density of the rung ahead",
        "kernel/adaptation.py",
        "logp_of(p, p.here)",
        "logp_of(p, p.here + 1)",
        ADAPTATION,
    ),
    Mutant(
        "kept gradient is the momentum",
        "kernel/adaptation.py",
        "x, _, grad, _, _ = rung(p, p.here)",
        "x, grad, _, _, _ = rung(p, p.here)",
        ADAPTATION,
    ),
    Mutant(
        "kept draws one too far",
        "kernel/adaptation.py",
        "k = p.kept % p.kept_capacity",
        "k = (p.kept + 1) % p.kept_capacity",
        ADAPTATION,
    ),
)

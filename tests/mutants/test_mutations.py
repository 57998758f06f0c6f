"""Mutations apply: what has been rewritten since would otherwise be missed in silence."""

from pathlib import Path

import pytest

from tests.mutants.mutations import MUTANTS

PACKAGE = Path(__file__).resolve().parents[2] / "mjhmc_numba"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutation_applies_in_exactly_one_way(mutant):
    assert (PACKAGE / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old


def test_mutants_have_names_of_their_own():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20

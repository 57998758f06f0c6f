"""A plugin of pytest for `audit.py`: of all tests, those that ask for seeds."""


def pytest_collection_modifyitems(config, items):
    chosen = [item for item in items if "seeds" in getattr(item, "fixturenames", ())]
    rest = [item for item in items if item not in chosen]
    config.hook.pytest_deselected(items=rest)
    items[:] = chosen

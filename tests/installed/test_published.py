"""What is changed for the pages of a public host before a release is built."""

import importlib.util
import re
import tomllib

from tests.installed.lint import ROOT

ADDRESS = "https://host.example/people/mjhmc_numba"


def program():
    spec = importlib.util.spec_from_file_location("published", ROOT / "packaging/published.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_link_of_the_readme_is_absolute_and_its_picture_loads():
    readme = (ROOT / "README.md").read_text()
    page = program().absolute(readme, ADDRESS, "v1.2.3")
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert links
    assert [link for link in links if "://" not in link] == []
    assert f"({ADDRESS}/raw/v1.2.3/examples/benchmark/results/readme.png)" in page
    assert f"({ADDRESS}/blob/v1.2.3/LICENSE)" in page  # around a badge
    assert page.count("img.shields.io") == readme.count("img.shields.io")
    lead_here = [link.removeprefix(ADDRESS).split("/", 3)[3] for link in links if ADDRESS in link]
    assert [path for path in lead_here if not (ROOT / path).exists()] == []


def test_the_project_says_where_it_lives():
    text = program().with_addresses((ROOT / "pyproject.toml").read_text(), ADDRESS)
    urls = tomllib.loads(text)["project"]["urls"]
    assert urls["Repository"] == ADDRESS
    assert urls["Paper"].startswith("https://arxiv.org/")

"""Make the README and the project's addresses those of a public host, before a release is built.

    python packaging/published.py https://github.com/<owner>/mjhmc_numba v0.2.0

PyPI shows the README by itself, where links to files of the repository lead nowhere. The workflow
`release` runs this on its own copy; nothing of it is committed.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)]+)\)")


def absolute(page: str, address: str, tag: str) -> str:
    """The page with links that lead to the files of a tag, and pictures that load."""

    def replaced(link: re.Match) -> str:
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({address}/{kind}/{tag}/{link[3]})"

    # A badge is a picture within a link: first what is inside, then the end of the link around it.
    inside = LINK.sub(replaced, page)
    return re.sub(r"\]\((?!https?://|#)([^)]+)\)", rf"]({address}/blob/{tag}/\1)", inside)


def with_addresses(project: str, address: str) -> str:
    """The text of pyproject.toml with the places where the project lives."""
    places = {
        "Repository": address,
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
    }
    lines = "".join(f'{name} = "{place}"\n' for name, place in places.items())
    head = "[project.urls]\n"
    if head not in project:
        raise ValueError("pyproject.toml has no table [project.urls].")
    return project.replace(head, head + lines)


def main() -> None:
    """Change both files in place."""
    address, tag = sys.argv[1].rstrip("/"), sys.argv[2]
    for name, change in (
        ("README.md", lambda text: absolute(text, address, tag)),
        ("pyproject.toml", lambda text: with_addresses(text, address)),
    ):
        path = ROOT / name
        path.write_text(change(path.read_text()))


if __name__ == "__main__":
    main()

"""HTML for notebooks and pages: numbers, tables and cards, escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["card", "escape", "short", "table"]


def short(value: Any) -> str:
    """A number with three digits that matter, or with thousands set apart; else its text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; the first column has the names of the rows."""
    top = "".join(f"<th>{escape(str(name))}</th>" for name in head)
    body = "".join(
        f"<tr><th>{escape(str(name))}</th>"
        + "".join(f"<td>{escape(short(value))}</td>" for value in values)
        + "</tr>"
        for name, *values in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def card(title: str, facts: Mapping[str, Any], *, notes: Sequence[str] = ()) -> str:
    """What an object says of itself in a notebook: a title, facts by name, and notes below."""
    cell = "text-align:left;padding:1px 14px 1px 0;vertical-align:top;background:none"
    rows = "".join(
        f'<tr><th style="{cell};font-weight:normal;opacity:0.7">{escape(str(name))}</th>'
        f'<td style="{cell}">{escape(short(value))}</td></tr>'
        for name, value in facts.items()
    )
    told = "".join(
        f'<div style="margin-top:4px;border-left:3px solid #d9822b;padding-left:8px;'
        f'max-width:46em">{escape(note)}</div>'
        for note in notes
    )
    return f"<div><b>{escape(title)}</b><table>{rows}</table>{told}</div>"

"""Pictures of a case, drawn with matplotlib where it is installed."""

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._case import Params
from ._summary import CaseSummary, GroupSummary, Row
from ._text import parameters, scalar, seconds, size, times

WIDTH, HEIGHT, DPI = 5.0, 3.1, 184


@dataclass(frozen=True)
class Theme:
    """The colours of a page in the light or in the dark."""

    paper: str
    ink: str
    faint: str
    baseline: str
    palette: tuple[str, ...]

    def colour(self, case: CaseSummary, contender: str) -> str:
        """Return the colour that stands for a contender all over the page."""
        if contender == case.baseline:
            return self.baseline
        others = [name for name in case.contenders if name != case.baseline]
        return self.palette[others.index(contender) % len(self.palette)]


LIGHT = Theme(
    paper="#fffefb",
    ink="#33383d",
    faint="#dcdad3",
    baseline="#868b91",
    palette=(
        "#2b6ca3", "#c2622d", "#3c8a5c", "#8659a5",
        "#a98217", "#bb4a68", "#2f8b94", "#6d7130",
    ),
)  # fmt: skip
DARK = Theme(
    paper="#1d2023",
    ink="#cfd2d4",
    faint="#3a3f44",
    baseline="#8d9399",
    palette=(
        "#6fb0e6", "#ec9a68", "#76c697", "#c09ade",
        "#d9b85a", "#ea8aa4", "#6dc6cf", "#b3b86a",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """A named panel and the function that draws it into axes."""

    name: str
    title: str
    draw: Callable[[Any, Theme], None]
    rows: int = 0

    def png(self, theme: Theme) -> bytes:
        """Return the panel as a PNG file."""
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        height = 1.1 + 0.42 * self.rows if self.rows else HEIGHT
        with rc_context(_style(theme)):
            figure = Figure(figsize=(WIDTH, height), layout="constrained")
            axes = figure.add_subplot()
            self.draw(axes, theme)
            axes.set_title(self.title, loc="left", fontsize=11, color=theme.ink, pad=10)
            stream = io.BytesIO()
            figure.savefig(stream, format="png", dpi=DPI, metadata={"Software": None})
        return stream.getvalue()


def can_draw() -> bool:
    """Tell whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def pictures(case: CaseSummary) -> list[Picture]:
    """Return the panels that say something about a case."""
    if not case.rows("ok"):
        return []
    axis = _swept(case)
    panels = _over_parameter(case, axis) if axis else _side_by_side(case)
    return panels + _curves(case)


def _swept(case: CaseSummary) -> str | None:
    """Return the one numeric parameter in which the groups differ, if there is one."""
    if len(case.groups) < 2:
        return None
    varying = [
        name
        for name in case.param_names
        if len({repr(group.params.get(name)) for group in case.groups}) > 1
    ]
    if len(varying) != 1:
        return None
    values = [group.params.get(varying[0]) for group in case.groups]
    numeric = all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in values
    )
    return varying[0] if numeric else None


def _over_parameter(case: CaseSummary, axis: str) -> list[Picture]:
    def line(value: Callable[[Row], float | None], show: Callable[[float], str]) -> Any:
        return lambda axes, theme: _draw_lines(axes, theme, case, axis, value, show)

    panels = [
        Picture("time", f"time over {axis}", line(_median, seconds)),
        Picture("speed", f"speed over {axis} (baseline = 1)", line(_speed, times)),
    ]
    for key, title in (("scratch_bytes", "scratch"), ("device_peak_bytes", "device")):
        if _has_memory(case, key):
            draw = line(lambda row, key=key: row.record.memory.get(key), size)
            panels.append(Picture(title, f"{title} memory over {axis}", draw))
    return panels


def _side_by_side(case: CaseSummary) -> list[Picture]:
    panels = []
    for number, group in enumerate(case.groups):
        rows = [row for row in group.rows if row.time is not None]
        if not rows:
            continue
        several = len(case.groups) > 1
        name = f"time-{number + 1}" if several else "time"
        title = "time per call" + (f", {parameters(group.params)}" if several else "")
        panels.append(Picture(name, title, _strip(case, rows), rows=len(rows)))
    return panels


def _curves(case: CaseSummary) -> list[Picture]:
    """One panel a curve, at the last parameters that have it: commonly the largest."""
    last: dict[str, GroupSummary] = {}
    for group in case.groups:
        for row in group.rows:
            last |= dict.fromkeys(row.record.curves, group)
    panels = []
    for name, group in last.items():
        several = len(case.groups) > 1
        title = f"{name}, {parameters(group.params)}" if several else name
        panels.append(Picture(_file_name(name), title, _curve(case, group, name)))
    return panels


def _draw_lines(
    axes: Any,
    theme: Theme,
    case: CaseSummary,
    axis: str,
    value: Callable[[Row], float | None],
    show: Callable[[float], str],
) -> None:
    points = _points(case, axis, value)
    xs = [x for line in points.values() for x, _ in line]
    ys = [y for line in points.values() for _, y in line]
    if xs and min(xs) > 0 and max(xs) / min(xs) >= 8:
        axes.set_xscale("log", base=2)
    if ys and max(ys) > 0:  # a logarithmic axis that knows where zero is
        axes.set_yscale("symlog", linthresh=min(y for y in ys if y > 0))
    for contender, line in points.items():
        colour = theme.colour(case, contender)
        axes.plot(*zip(*sorted(line), strict=True), "o-", color=colour, label=contender)
    axes.set_xticks(sorted(set(xs)), [scalar(_plain(x)) for x in sorted(set(xs))])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda y, _: show(y))
    axes.set_xlabel(axis)
    _legend(axes)


def _points(
    case: CaseSummary, axis: str, value: Callable[[Row], float | None]
) -> dict[str, list[tuple[float, float]]]:
    points: dict[str, list[tuple[float, float]]] = {}
    for group in case.groups:
        for row in group.rows:
            y = value(row) if row.record.status == "ok" else None
            if y is not None and math.isfinite(y):
                x = _coordinate(group.params, axis)
                points.setdefault(row.record.contender, []).append((x, y))
    return points


def _strip(case: CaseSummary, rows: list[Row]) -> Callable[[Any, Theme], None]:
    def draw(axes: Any, theme: Theme) -> None:
        every = [t for row in rows for t in row.record.times_s]
        if min(every) > 0 and max(every) / min(every) > 8:
            axes.set_xscale("log")
        for height, row in enumerate(reversed(rows)):
            assert row.time is not None
            colour = theme.colour(case, row.record.contender)
            ts = row.record.times_s
            quartiles = [row.time.lower, row.time.upper]
            axes.plot(ts, [height] * len(ts), "o", ms=5, mew=0, color=colour, alpha=0.3)
            axes.plot(quartiles, [height] * 2, color=colour, lw=5, alpha=0.55,
                      solid_capstyle="round")  # fmt: skip
            axes.plot(row.time.median, height, "o", ms=8, color=colour,
                      mec=theme.paper, mew=1.5)  # fmt: skip
            axes.annotate(seconds(row.time.median), (row.time.median, height),
                          xytext=(0, 8), textcoords="offset points", ha="center",
                          fontsize=8, color=colour)  # fmt: skip
        axes.set_yticks(range(len(rows)), [r.record.contender for r in reversed(rows)])
        axes.set_ylim(-0.6, len(rows) - 0.3)
        axes.margins(x=0.12)
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_formatter(lambda x, _: seconds(x))
        axes.xaxis.set_minor_formatter(lambda x, _: "")

    return draw


def _curve(
    case: CaseSummary, group: GroupSummary, name: str
) -> Callable[[Any, Theme], None]:
    def draw(axes: Any, theme: Theme) -> None:
        for row in group.rows:
            if (curve := row.record.curves.get(name)) is None:
                continue
            colour = theme.colour(case, row.record.contender)
            style = "o-" if len(curve["x"]) <= 25 else "-"
            axes.plot(curve["x"], curve["y"], style, color=colour,
                      label=row.record.contender)  # fmt: skip
        _legend(axes)

    return draw


def _legend(axes: Any) -> None:
    if len(axes.get_lines()) > 0:
        axes.legend(frameon=False, fontsize=9, labelcolor="linecolor", handlelength=1.4)


def _style(theme: Theme) -> dict[str, Any]:
    return {
        "figure.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "axes.edgecolor": theme.faint,
        "axes.labelcolor": theme.ink,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": theme.faint,
        "grid.linewidth": 0.6,
        "xtick.color": theme.faint,
        "ytick.color": theme.faint,
        "xtick.labelcolor": theme.ink,
        "ytick.labelcolor": theme.ink,
        "font.size": 9.5,
        "lines.linewidth": 1.8,
        "lines.markersize": 4.5,
    }


def _median(row: Row) -> float | None:
    return None if row.time is None else row.time.median


def _speed(row: Row) -> float | None:
    return None if row.speed is None else row.speed.median


def _has_memory(case: CaseSummary, key: str) -> bool:
    return any(row.record.memory.get(key) for row in case.rows("ok"))


def _coordinate(params: Params, axis: str) -> float:
    value = params[axis]
    assert isinstance(value, int | float)
    return float(value)


def _plain(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _file_name(name: str) -> str:
    return "curve-" + "".join(c if c.isalnum() else "-" for c in name.lower())

"""Plots of bars as SVG by hand: light files, readable on light and on dark backgrounds."""
from dataclasses import dataclass
from html import escape
from typing import Optional

# Contrast of at least 4 on white and on #0d1117.
INK, GRID = '#6e7781', '#8b949e'
COLOURS = {'win': '#2f81f7', 'loss': '#d9622b', 'plain': '#2f81f7', 'other': '#8b949e'}
LETTER, FIELD, RIGHT, LINE, TOP = 6.8, 380, 190, 20, 14  # of a label, of the bars, behind them; heights


@dataclass
class Bar:
    label: str
    value: float
    text: str  # beside the bar
    kind: str = 'plain'  # of COLOURS
    low: Optional[float] = None  # whiskers from low to high
    high: Optional[float] = None


def extent(bars, origin):
    """Lowest and highest value, with a little room."""
    ends = [origin] + [v for b in bars for v in (b.value, b.low, b.high) if v is not None]
    low, high = min(ends), max(ends)
    room = (high - low or 1) * 0.03
    return low - (room if low < origin else 0), high + room


def bars(title, entries, origin=0.0, origin_name=''):
    """One horizontal bar for each entry from `origin` on, whose line is named; the title is for those who cannot see."""
    low, high = extent(entries, origin)
    left = 16 + round(LETTER * max(len(bar.label) for bar in entries))
    width = left + FIELD + RIGHT

    def x(value):
        return left + (value - low) * FIELD / (high - low)
    height = TOP + LINE * len(entries) + 26
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="12" fill="{INK}">',
           f'<title>{escape(title)}</title>']
    for i, bar in enumerate(entries):
        y = TOP + LINE * i
        out.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(bar.label)}</text>')
        begin, end = sorted((x(origin), x(bar.value)))
        faint = ' fill-opacity="0.6"' if bar.low is not None else ''  # whiskers lie over it
        out.append(f'<rect x="{begin:.1f}" y="{y + 3}" width="{max(end - begin, 1):.1f}" height="{LINE - 6}" '
                   f'fill="{COLOURS[bar.kind]}"{faint}/>')
        beyond = max(end, x(origin))
        if bar.low is not None:
            middle = y + LINE / 2
            out.append(f'<path d="M{x(bar.low):.1f} {middle}H{x(bar.high):.1f}M{x(bar.low):.1f} {middle - 4}v8'
                       f'M{x(bar.high):.1f} {middle - 4}v8" stroke="{INK}" fill="none"/>')
            beyond = max(beyond, x(bar.high))
        out.append(f'<text x="{beyond + 6:.1f}" y="{y + 13}">{escape(bar.text)}</text>')
    bottom = TOP + LINE * len(entries)
    out.append(f'<path d="M{x(origin):.1f} {TOP - 4}V{bottom + 4}" stroke="{GRID}" stroke-dasharray="3 3"/>')
    if origin_name:
        out.append(f'<text x="{x(origin):.1f}" y="{bottom + 18}" text-anchor="middle">{escape(origin_name)}</text>')
    return '\n'.join(out + ['</svg>', ''])

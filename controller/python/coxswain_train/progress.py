"""The display of a job: a line in a terminal, a bar and the curve of the loss in a notebook."""
import html, sys


def _in_notebook():
    shell = sys.modules.get('IPython') and sys.modules['IPython'].get_ipython()
    return shell is not None and type(shell).__name__ == 'ZMQInteractiveShell'


class Progress:
    """Shows events as they come: job.wait(display=Progress())."""

    def __init__(self, out=None):
        self._out = out or sys.stdout
        self._handle = None
        self._notebook = out is None and _in_notebook()
        self.losses, self.eval_losses, self.step, self.total, self.state = [], [], 0, 0, ''

    def __call__(self, event):
        line = self._take(event)
        if self._notebook:
            self._show()
        elif line:
            print(line, file=self._out, flush=True)

    def _take(self, event):
        """Keeps what an event says; returns its line, empty: it needs none."""
        if event.HasField('step_done'):
            done = event.step_done
            self.step, self.total = done.step + 1, done.total_steps
            self.losses.append((self.step, done.loss))
            return f'step {self.step}/{self.total}  loss {done.loss:.4f}  {done.tokens_per_second:,.0f} tokens/s'
        if event.HasField('eval_done'):
            self.eval_losses.append((event.eval_done.step, event.eval_done.eval_loss))
            return f'evaluation at step {event.eval_done.step}: loss {event.eval_done.eval_loss:.4f}'
        if event.HasField('state_changed'):
            self.state = event.state_changed.to
            return f'{self.state}: {event.message}' if event.message else self.state
        return event.message

    def _show(self):
        from IPython import display
        shown = display.HTML(self._repr_html_())
        if self._handle is None:
            self._handle = display.display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def __str__(self):
        loss = f', loss {self.losses[-1][1]:.4f}' if self.losses else ''
        return f'{self.state or "waiting"}, step {self.step} of {self.total or "?"}{loss}'

    def _repr_html_(self):
        return (f'<div>{html.escape(str(self))}<br><progress value="{self.step}" max="{self.total or 1}" style="width:32em">'
                f'</progress><br>{curve_svg([self.losses, self.eval_losses])}</div>')


def curve_svg(series, width=480, height=160):
    """Lines over one pair of axes: lists of (x, y), the first one solid, the others with points."""
    points = [point for line in series for point in line if point[1] == point[1]]
    if len(points) < 2:
        return ''
    xs, ys = [x for x, _ in points], [y for _, y in points]
    left, low = min(xs), min(ys)
    wide, high = max(xs) - left or 1, max(ys) - low or 1
    place = lambda x, y: f'{40 + (x - left) / wide * (width - 50):.1f},{10 + (1 - (y - low) / high) * (height - 30):.1f}'
    drawn = ''
    for line, color in zip(series, ('#1f5fa8', '#c05020')):
        drawn += f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{" ".join(place(*p) for p in line)}"/>'
    text = lambda x, y, words: f'<text x="{x}" y="{y}" font-size="10">{words}</text>'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">{drawn}{text(0, 16, f"{max(ys):.3g}")}'
            f'{text(0, height - 18, f"{low:.3g}")}{text(40, height - 4, left)}{text(width - 40, height - 4, max(xs))}</svg>')

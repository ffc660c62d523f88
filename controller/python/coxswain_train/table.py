"""The numbers of a job's steps, as rows."""
import csv, io

COLUMNS = ('step', 'loss', 'grad_norm', 'learning_rate', 'tokens', 'tokens_per_second', 'seconds', 'eval_loss')


class Table(list):
    """A list of rows, each a dict with the keys of COLUMNS. None: the step has no such number. pandas.DataFrame(table)
    takes it."""

    def column(self, name) -> list:
        return [row[name] for row in self]

    def to_pandas(self):
        import pandas
        return pandas.DataFrame(self, columns=COLUMNS)

    def to_csv(self) -> str:
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator='\n')
        writer.writeheader()
        writer.writerows(self)
        return text.getvalue()


def steps_table(events):
    """Of StepDone and EvalDone events. The last event of a step counts. `step`: finished steps; an evaluation at n finished
    steps stands in the row of n, one before training in a row of step 0."""
    rows = {}
    for event in events:
        if event.HasField('step_done'):
            done = event.step_done
            rows[done.step + 1] = {**dict.fromkeys(COLUMNS), 'step': done.step + 1, 'loss': done.loss, 'grad_norm': done.grad_norm,
                                   'learning_rate': done.learning_rate, 'tokens': done.tokens,
                                   'tokens_per_second': done.tokens_per_second, 'seconds': done.seconds}
        elif event.HasField('eval_done'):
            step = event.eval_done.step
            rows.setdefault(step, {**dict.fromkeys(COLUMNS), 'step': step})['eval_loss'] = event.eval_done.eval_loss
    return Table(rows[step] for step in sorted(rows))

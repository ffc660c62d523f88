"""A file of results, {"rows": [...]}, each with its name in `row`."""
import json, os


def keep(path, row):
    """Puts it in the place of the one of this name."""
    results = {'rows': []}
    if os.path.exists(path):
        with open(path) as f:
            results = json.load(f)
    results['rows'] = [r for r in results['rows'] if r['row'] != row['row']] + [row]
    with open(path, 'w') as f:
        json.dump(results, f, indent=1)

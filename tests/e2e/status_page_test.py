#!/usr/bin/env python3
"""The status page in a headless Chromium: it says what the API says, while a job runs and after its end.

Skips where no Chromium is (deploy/install-deps.sh --browser). COXSWAIN_PICTURES: a folder to keep screenshots in.
"""
import json, os, re, sys, unittest, urllib.request
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, find
from processes import Cluster, wait_for

LIMIT_BYTES = 100_000
LIMIT_PAINT_MS = 200
EVIL = '<img src=x onerror=alert(1)>'
FIELDS = '[...document.querySelectorAll(%s)].map(e => [e.dataset.field, e.getAttribute("value"), e.textContent])'


def at(message, path):
    for key in path.split('.'):
        message = message[key]
    return message


def contrast(one, other):
    """WCAG contrast ratio of two rgb(...) texts."""
    def luminance(text):
        parts = [int(p) / 255 for p in re.findall(r'\d+', text)[:3]]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@unittest.skipUnless(find(), 'no Chromium here: deploy/install-deps.sh --browser')
class StatusPageTest(Cluster):
    def start_job(self, steps, **changes):
        self.start_controller()
        self.start_workers(2)
        self.base = f'http://{self.endpoint["metrics"]}'
        return self.submit(self.job_file(replace={'max_steps: 40': f'max_steps: {steps}', 'eval_steps: 20': 'eval_steps: 5', **changes}))

    def assert_equal_to_api(self, page, rows, message):
        """Every number with a field name, exactly, and its text where that is not rounded."""
        shown = page.js(FIELDS % json.dumps(f'{rows} [data-field]'))
        self.assertGreater(len(shown), 5)
        for field, exact, text in shown:
            expected = at(message, field)
            if exact is None:
                self.assertEqual(text, expected, field)
            else:
                self.assertEqual(float(exact), float(expected), field)
            if field.startswith('progress.') and isinstance(expected, int):
                self.assertEqual(text, f'{expected:,}', field)
            elif field.endswith('loss'):
                self.assertEqual(text, f'{expected:.4f}', field)

    def keep(self, page, name):
        path = os.path.join(os.environ.get('COXSWAIN_PICTURES', self.dir), name)
        page.picture(path)
        self.assertGreater(os.path.getsize(path), 20_000, f'{path} shows hardly anything')

    def test_follows_a_running_job(self):
        job = self.start_job(200)
        wait_for('steps', lambda: (self.cox_json('get', job)['progress'] or {'step': 0})['step'] >= 6, 120)
        step = f'Number(document.querySelector(\'tr[data-key="{job}"] [data-field="progress.step"]\').value)'
        with Browser() as page:
            before = self.cox_json('get', job)['progress']['step']
            page.open(self.base + '/')
            shown = page.js(step)
            self.assertTrue(before <= shown <= self.cox_json('get', job)['progress']['step'], (before, shown))
            self.assertEqual(page.js(f'document.querySelector(\'[data-state="{job}"]\').textContent'), 'RUNNING')
            self.assertEqual(page.js('document.querySelectorAll("section.job svg path.line").length'), 2)
            self.keep(page, 'overview-light.png')
            # It goes on without a reload, and what has the focus keeps it.
            page.js(f'window.mark = 1; document.querySelector(\'tr[data-key="{job}"] a\').focus()')
            wait_for('a newer step', lambda: page.js(step) > shown)
            self.assertEqual(page.js('[window.mark, document.activeElement.textContent]'), [1, job])
            page.set_dark(True)
            page.resize(480, 900)
            self.assertLessEqual(page.js('document.documentElement.scrollWidth'), 480, 'the page itself scrolls sideways')
            self.keep(page, 'overview-dark-480.png')

            page.open(f'{self.base}/jobs/{job}')
            page.js('document.querySelector("[data-curve=loss] svg").focus()')
            page.key('ArrowLeft')
            said = wait_for('the value of a point', lambda: page.js('document.querySelector("[data-curve=loss] output").textContent'))
            points = json.load(urllib.request.urlopen(f'{self.base}/jobs/{job}.json'))
            number, loss = re.fullmatch(r'step (\d+): ([\d.]+)', said).groups()
            self.assertAlmostEqual(points['loss'][points['step'].index(int(number))], float(loss), places=4)
            self.keep(page, 'job-dark-480.png')
            self.assertEqual(page.complaints, [])
        self.cox('cancel', job)

    def test_is_equal_to_the_api_small_and_fast(self):
        job = self.start_job(10)
        self.wait_state(job, 'SUCCEEDED', 240)
        message = self.cox_json('get', job)
        with Browser() as page:
            for path, rows in (('/', f'tr[data-key="{job}"]'), (f'/jobs/{job}', 'body')):
                response = urllib.request.urlopen(self.base + path)
                self.assertLess(len(response.read()), LIMIT_BYTES, path)
                self.assertEqual(response.headers['X-Content-Type-Options'], 'nosniff')
                paints = []
                def soon():      # the best: what else the machine does is not the page's
                    page.open(self.base + path)
                    paints.append(page.first_paint_ms())
                    return paints[-1] < LIMIT_PAINT_MS
                wait_for(f'{path}: first paint in {LIMIT_PAINT_MS} ms', soon, 120)
                print(f'{path}: first paint after {paints} ms')
                self.assert_equal_to_api(page, rows, message)
                self.assert_usable(page)
                self.assertEqual(page.complaints, [], path)
            page.open(self.base + '/')
            self.assertEqual(page.js('[...document.querySelectorAll("[data-key=workers] tbody th")].map(e => e.textContent)'),
                             sorted(w['id'] for w in self.cox_json('workers')['workers']))
        points = json.load(urllib.request.urlopen(f'{self.base}/jobs/{job}.json'))
        events = self.step_events(job)
        self.assertEqual(list(zip(points['step'], points['loss'], points['grad_norm'])),
                         [(s + 1, loss, norm) for s, loss, norm in events])

    def assert_usable(self, page):
        """Semantics, names, focus and contrast that a screen reader, a keyboard and weak eyes need."""
        self.assertEqual(page.js('document.documentElement.lang'), 'en')
        self.assertEqual(page.js('document.querySelectorAll("h1, main, header").length'), 3)
        self.assertEqual(page.js('[...document.querySelectorAll("table")].filter(t => !t.caption?.textContent).length'), 0)
        self.assertEqual(page.js('document.querySelectorAll("th:not([scope])").length'), 0)
        self.assertEqual(page.js('[...document.querySelectorAll("svg, progress, meter")].filter(e => !e.ariaLabel).length'), 0)
        self.assertEqual(page.js('document.querySelectorAll("[aria-live], [role=status]").length'), 1)
        self.assertEqual(page.js('[...document.querySelectorAll("[id]")].map(e => e.id).filter((id, i, all) => all.indexOf(id) !== i)'), [])
        others = page.js('performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith(location.origin))')
        self.assertEqual(others, [], 'external assets')
        page.key('Tab')
        self.assertEqual(page.js('document.activeElement.textContent'), 'Skip to content')
        self.assertNotEqual(page.js('getComputedStyle(document.activeElement).outlineStyle'), 'none')
        for dark in (False, True):
            page.set_dark(dark)
            colours = page.js('[...document.querySelectorAll("main *, header *")].filter(e => e.children.length === 0 && e.textContent'
                              ' && e.checkVisibility()).map(e => getComputedStyle(e).color)')
            ground = page.js('getComputedStyle(document.body).backgroundColor')
            for colour in set(colours):
                self.assertGreaterEqual(contrast(colour, ground), 4.5, (colour, ground, dark))
        page.set_dark(False)

    def test_texts_of_users_stay_texts_and_it_needs_no_javascript(self):
        job = self.start_job(4, **{'metadata: {name: quickstart}':
                                   f'metadata: {{name: quickstart, labels: {{note: "{EVIL}"}}}}'})
        self.wait_state(job, 'SUCCEEDED', 240)
        with Browser() as page:
            page.open(f'{self.base}/jobs/{job}')
            self.assertIn(f'note={EVIL}', page.js('document.body.innerText'))
            self.assertEqual(page.js('document.images.length'), 0)
            self.assertEqual(page.complaints, [])
        with Browser(javascript=False) as page:
            page.open(self.base + '/')
            self.keep(page, 'overview-without-javascript.png')
        html = urllib.request.urlopen(self.base + '/').read().decode()
        self.assertIn(f'<a href="/jobs/{job}">', html)
        self.assertIn('<noscript><meta http-equiv="refresh"', html)
        self.assertIn('<path class="line" d="M', urllib.request.urlopen(f'{self.base}/jobs/{job}').read().decode())


if __name__ == '__main__':
    unittest.main(verbosity=2, warnings='ignore')

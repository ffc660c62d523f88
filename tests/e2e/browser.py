"""A headless Chromium driven over its debugging pipe: one page, its console, its paint times, its picture.

Needs Debian's chromium-headless-shell or chromium, and nothing else: messages are JSON between two pipes.
"""
import base64, json, os, select, shutil, signal, subprocess, tempfile, time

NAMES = ('chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome')


def find():
    """Path of a Chromium, None when there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """with Browser() as page: page.open(url); page.js('1 + 1')"""

    def __init__(self, width=1280, height=900, dark=False, javascript=True):
        self.size, self.dark, self.javascript = (width, height), dark, javascript
        self.complaints = []      # console errors, exceptions, failed loads, policy violations
        self.last_id, self.buffer, self.answers = 0, b'', {}

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix='coxswain-browser-')
        to_child, self.to_browser = os.pipe()
        self.from_browser, from_child = os.pipe()

        def pipes_to_3_and_4():
            # Copies first: one of the two may be 3 or 4 itself.
            read, write = os.dup(to_child), os.dup(from_child)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            [find(), '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', '--no-first-run',
             '--disable-background-networking', '--disable-component-update', '--remote-debugging-pipe',
             f'--user-data-dir={self.profile}', 'about:blank'],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=pipes_to_3_and_4, start_new_session=True)
        os.close(to_child)
        os.close(from_child)
        self.session = None
        target = next(t for t in self.call('Target.getTargets')['targetInfos'] if t['type'] == 'page')
        self.session = self.call('Target.attachToTarget', targetId=target['targetId'], flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(f'{domain}.enable')
        self.resize(*self.size)
        self.set_dark(self.dark)
        self.call('Emulation.setScriptExecutionDisabled', value=not self.javascript)
        return self

    def __exit__(self, *_):
        os.close(self.to_browser)
        os.close(self.from_browser)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, **params):
        self.last_id += 1
        number, message = self.last_id, {'id': self.last_id, 'method': method, 'params': params}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b'\0')
        self.read_until(lambda: number in self.answers, f'answer to {method}')
        answer = self.answers.pop(number)
        if 'error' in answer:
            raise RuntimeError(f'{method}: {answer["error"]}')
        return answer['result']

    def read_until(self, condition, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.from_browser], [], [], left)[0]:
                raise AssertionError(f'browser: no {what} within {seconds} s')
            chunk = os.read(self.from_browser, 1 << 20)
            if not chunk:
                raise AssertionError('browser: ended')
            *messages, self.buffer = (self.buffer + chunk).split(b'\0')
            for message in messages:
                self.take(json.loads(message))

    def take(self, message):
        if 'id' in message:
            self.answers[message['id']] = message
            return
        method, params = message['method'], message.get('params', {})
        if method == 'Page.loadEventFired':
            self.loaded = True
        elif method == 'Runtime.exceptionThrown':
            self.complaints.append(json.dumps(params['exceptionDetails']))
        elif method == 'Runtime.consoleAPICalled' and params['type'] in ('error', 'warning', 'assert'):
            self.complaints.append(json.dumps(params['args']))
        elif method == 'Log.entryAdded' and params['entry']['level'] in ('error', 'warning'):
            self.complaints.append(json.dumps(params['entry']))

    def open(self, url):
        self.loaded = False
        self.call('Page.navigate', url=url)
        self.read_until(lambda: self.loaded, f'load of {url}')

    def js(self, expression):
        """The value of a JavaScript expression, awaited when it is a promise."""
        answer = self.call('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in answer:
            raise RuntimeError(f'{expression}: {answer["exceptionDetails"]}')
        return answer['result'].get('value')

    def key(self, name):
        for kind in ('keyDown', 'keyUp'):
            self.call('Input.dispatchKeyEvent', type=kind, key=name, code=name, windowsVirtualKeyCode={'Tab': 9, 'ArrowLeft': 37}[name])

    def resize(self, width, height):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)

    def set_dark(self, dark):
        scheme = 'dark' if dark else 'light'
        self.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': scheme}])

    def first_paint_ms(self):
        """Milliseconds from the start of the navigation to the first paint with content."""
        def entry():
            found = self.js('performance.getEntriesByName("first-contentful-paint").map(e => e.startTime)')
            return found and found[0]
        deadline = time.monotonic() + 60
        while (paint := entry()) is None or paint == []:
            if time.monotonic() > deadline:
                raise AssertionError('browser: no paint within 60 s')
            time.sleep(0.02)
        return paint

    def picture(self, path, whole=True):
        """A PNG of the whole page, or of what is visible."""
        data = self.call('Page.captureScreenshot', format='png', captureBeyondViewport=whole)['data']
        with open(path, 'wb') as out:
            out.write(base64.b64decode(data))

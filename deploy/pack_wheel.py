"""Writes a folder with the package coxswain_kernels as a wheel: a zip with METADATA, WHEEL and RECORD.

  deploy/pack_wheel.py STAGE FOLDER VERSION TORCH      (deploy/wheel.sh calls it)
"""
import base64, hashlib, os, sys, zipfile

METADATA = """Metadata-Version: 2.1
Name: coxswain-kernels
Version: {version}
Summary: Coxswain's fused kernels for PyTorch and transformers
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: torch =={torch}.*
"""
WHEEL = """Wheel-Version: 1.0
Generator: deploy/pack_wheel.py
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
"""


def files_of(stage):
    for folder, _, names in sorted(os.walk(stage)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, 'rb') as f:
                yield os.path.relpath(path, stage), f.read()


def main():
    stage, folder, version, torch = sys.argv[1:]
    info = f'coxswain_kernels-{version}.dist-info'
    files = {f'{info}/LICENSE' if name == 'LICENSE' else name: data for name, data in files_of(stage)}
    files[f'{info}/METADATA'] = METADATA.format(version=version, torch=torch).encode()
    files[f'{info}/WHEEL'] = WHEEL.encode()
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        rows.append(f'{name},sha256={digest},{len(data)}\n')
    files[f'{info}/RECORD'] = (''.join(rows) + f'{info}/RECORD,,\n').encode()
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f'coxswain_kernels-{version}-py3-none-linux_x86_64.whl')
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data in files.items():
            # One time for all, so that the same content is the same file.
            entry = zipfile.ZipInfo(name, date_time=(2020, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    print(f'{path}: {os.path.getsize(path) / 2 ** 20:.1f} MiB')


if __name__ == '__main__':
    main()

"""Writes a folder as a wheel: a zip with METADATA, WHEEL and RECORD.

  deploy/pack_wheel.py STAGE FOLDER NAME VERSION TAG [FIELD...]
      STAGE: the packages; LICENSE and entry_points.txt of it go into the wheel's own folder
      TAG: such as py3-none-linux_x86_64
      FIELD: further lines of METADATA, such as "Requires-Dist: torch ==2.11.*"
"""
import base64, hashlib, os, sys, zipfile

WHEEL = """Wheel-Version: 1.0
Generator: deploy/pack_wheel.py
Root-Is-Purelib: false
Tag: {tag}
"""
OWN = ('LICENSE', 'entry_points.txt')  # of the wheel, not of a package


def files_of(stage):
    """(name, content, whether it is a program) of each file."""
    for folder, _, names in sorted(os.walk(stage)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, 'rb') as f:
                yield os.path.relpath(path, stage), f.read(), os.access(path, os.X_OK)


def main():
    stage, folder, name, version, tag, *fields = sys.argv[1:]
    stem = f'{name.replace("-", "_")}-{version}'
    info = f'{stem}.dist-info'
    files = {f'{info}/{file}' if file in OWN else file: (data, program) for file, data, program in files_of(stage)}
    metadata = ['Metadata-Version: 2.1', f'Name: {name}', f'Version: {version}', 'License: Apache-2.0', *fields]
    files[f'{info}/METADATA'] = ('\n'.join(metadata) + '\n').encode(), False
    files[f'{info}/WHEEL'] = WHEEL.format(tag=tag).encode(), False
    rows = []
    for file, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        rows.append(f'{file},sha256={digest},{len(data)}\n')
    files[f'{info}/RECORD'] = (''.join(rows) + f'{info}/RECORD,,\n').encode(), False
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f'{stem}-{tag}.whl')
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for file, (data, program) in files.items():
            # One time for all, so that the same content is the same file.
            entry = zipfile.ZipInfo(file, date_time=(2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    print(f'{path}: {os.path.getsize(path) / 2 ** 20:.1f} MiB')


if __name__ == '__main__':
    main()

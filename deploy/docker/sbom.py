#!/usr/bin/env python3
"""Writes ROOT/usr/share/coxswain/sbom.spdx.json (SPDX 2.3) and the copyright files of what it lists.

  deploy/docker/sbom.py ROOT IMAGE < ORIGINS      ORIGINS: "path in the image<TAB>path it came from" a line
Every file of ROOT belongs to a Debian package, to Apache Arrow, to NVIDIA's libraries or to Coxswain.
"""
import hashlib, json, os, re, shutil, subprocess, sys, time

OURS = 'coxswain'


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True).stdout.strip()


def names_of(path):
    """Packages name files before and after the merge of /usr into one."""
    real = os.path.realpath(path)
    return list(dict.fromkeys([path, real, re.sub('^/usr(?=/lib)', '', real), re.sub('^/lib', '/usr/lib', path)]))


def owners(paths):
    """{path: Debian package}, in one call; a path that no package has is missing."""
    found = {}
    for line in run('dpkg-query', '-S', *{n for p in paths for n in names_of(p)}).splitlines():
        packages, name = line.rsplit(': ', 1)
        found[name] = packages.split(',')[0].split(':')[0]
    # The package writes it at its installation.
    found['/etc/ssl/certs/ca-certificates.crt'] = 'ca-certificates'
    return {p: found[n] for p in paths for n in names_of(p) if n in found}


def describe(package, version):
    if package == OURS:
        return {'versionInfo': version, 'supplier': 'Organization: Coxswain developers', 'licenseDeclared': 'Apache-2.0'}
    if package == 'nvidia-cuda':
        return {'versionInfo': 'see file names', 'supplier': 'Organization: NVIDIA Corporation', 'licenseDeclared': 'NOASSERTION'}
    if package == 'apache-arrow':
        return {'versionInfo': 'see file names', 'supplier': 'Organization: Apache Software Foundation', 'licenseDeclared': 'Apache-2.0'}
    version, source, arch = run('dpkg-query', '-W', '-f', '${Version}\t${source:Package}\t${Architecture}', package).split('\t')
    return {'versionInfo': version, 'supplier': 'Organization: Debian', 'licenseDeclared': 'NOASSERTION',
            'sourceInfo': f'source package {source}',
            'externalRefs': [{'referenceCategory': 'PACKAGE-MANAGER', 'referenceType': 'purl',
                              'referenceLocator': f'pkg:deb/debian/{package}@{version}?arch={arch}'}]}


def main():
    root, image = sys.argv[1:]
    origins = dict(line.rstrip('\n').split('\t') for line in sys.stdin)
    with open('CMakeLists.txt') as f:
        version = re.search(r'project\(coxswain VERSION (\S+)', f.read())[1]
    owner = owners(list(origins.values()))
    files, packages = [], {OURS: []}
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            inside = '/' + os.path.relpath(path, root)
            if os.path.islink(path):
                continue
            origin = origins.get(inside)
            elsewhere = 'apache-arrow' if re.search('/lib(arrow|parquet)\\.so', inside) else 'nvidia-cuda'
            package = OURS if origin is None else owner.get(origin, elsewhere)
            with open(path, 'rb') as f:
                digest = hashlib.sha256(f.read()).hexdigest()
            identity = f'SPDXRef-File-{len(files)}'
            files.append({'SPDXID': identity, 'fileName': '.' + inside, 'copyrightText': 'NOASSERTION',
                          'licenseConcluded': 'NOASSERTION', 'checksums': [{'algorithm': 'SHA256', 'checksumValue': digest}]})
            packages.setdefault(package, []).append(identity)
    described, relations = [], []
    for package, members in sorted(packages.items()):
        identity = 'SPDXRef-Package-' + re.sub(r'[^A-Za-z0-9.-]', '-', package)
        described.append({'SPDXID': identity, 'name': package, 'downloadLocation': 'NOASSERTION', 'filesAnalyzed': False,
                          'licenseConcluded': 'NOASSERTION', 'copyrightText': 'NOASSERTION', **describe(package, version)})
        relations.append({'spdxElementId': 'SPDXRef-DOCUMENT', 'relationshipType': 'DESCRIBES', 'relatedSpdxElement': identity})
        relations += [{'spdxElementId': identity, 'relationshipType': 'CONTAINS', 'relatedSpdxElement': f} for f in members]
        copyright_file = f'/usr/share/doc/{package}/copyright'
        if os.path.exists(copyright_file):
            os.makedirs(root + os.path.dirname(copyright_file), exist_ok=True)
            shutil.copyfile(copyright_file, root + copyright_file)
    created = int(os.environ.get('SOURCE_DATE_EPOCH') or run('git', 'log', '-1', '--format=%ct') or time.time())
    document = {'spdxVersion': 'SPDX-2.3', 'dataLicense': 'CC0-1.0', 'SPDXID': 'SPDXRef-DOCUMENT', 'name': f'coxswain-{image}-{version}',
                'documentNamespace': f'https://coxswain.dev/spdx/{image}/{version}/{files and hashlib.sha256(json.dumps(files).encode()).hexdigest()}',
                'creationInfo': {'created': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(created)),
                                 'creators': ['Tool: deploy/docker/sbom.py', 'Organization: Coxswain developers']},
                'packages': described, 'files': files, 'relationships': relations}
    with open(os.path.join(root, 'usr/share/coxswain/sbom.spdx.json'), 'w') as f:
        json.dump(document, f, indent=1)


main()

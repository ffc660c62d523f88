#!/usr/bin/env python3
"""Packs a file system that assemble.sh made as an image, without a container engine: an archive of the OCI image layout,
which `docker load`, `podman load` and `skopeo copy oci-archive:` read.

  deploy/docker/pack_image.py ROOT DOCKERFILE NAME:TAG REVISION ARCHIVE
      DOCKERFILE: its last stage says labels, environment, user, ports and entry point
SOURCE_DATE_EPOCH is the time of everything in it: the same files make the same bytes. Prints the digest of the manifest,
by which a registry knows the image.
Source: OCI image format specification 1.1; docker load also reads manifest.json.
"""
import gzip, hashlib, io, json, os, re, shlex, sys, tarfile, time

OWNER = 65532   # of the folders that the programs write, as assemble.sh gave them
TYPE = 'application/vnd.oci.image.'


def last_stage(dockerfile, revision):
    """[(instruction, rest)] after the last FROM, with the build's revision in its place."""
    with open(dockerfile) as f:
        text = re.sub(r'\\\n\s*', ' ', f.read())
    lines = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith('#')]
    begin = max(i for i, line in enumerate(lines) if line[0] == 'FROM')
    return [(line[0], line[1].replace('${REVISION}', revision)) for line in lines[begin + 1:]]


def configuration(stage):
    """What the container engine reads: the key `config` of the image's configuration."""
    config = {'Env': ['PATH=/usr/bin'], 'Labels': {}, 'ExposedPorts': {}}
    for instruction, rest in stage:
        if instruction == 'ENV':
            config['Env'] += shlex.split(rest)
        elif instruction == 'LABEL':
            config['Labels'].update(pair.split('=', 1) for pair in shlex.split(rest))
        elif instruction == 'EXPOSE':
            for ports in rest.split():
                first, last = (ports.split('-') * 2)[:2]
                config['ExposedPorts'].update({f'{port}/tcp': {} for port in range(int(first), int(last) + 1)})
        elif instruction == 'ENTRYPOINT':
            config['Entrypoint'] = json.loads(rest)
        elif instruction in ('USER', 'WORKDIR', 'STOPSIGNAL'):
            config[{'USER': 'User', 'WORKDIR': 'WorkingDir', 'STOPSIGNAL': 'StopSignal'}[instruction]] = rest
        elif instruction not in ('COPY', 'ARG'):
            sys.exit(f'pack_image.py: {instruction} in the last stage is not known here')
    return config


def add(archive, name, data):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def layer_of(root, epoch):
    """The file system as an uncompressed tar: sorted names, one time, no user of this machine."""
    def plain(entry):
        entry.uid = entry.gid = OWNER if entry.uid == OWNER else 0
        entry.uname = entry.gname = ''
        entry.mtime = epoch
        return entry
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w', format=tarfile.GNU_FORMAT) as layer:
        for name in sorted(os.listdir(root)):
            layer.add(os.path.join(root, name), name, filter=plain)    # members of folders sorted too
    return out.getvalue()


def main():
    root, dockerfile, reference, revision, path = sys.argv[1:]
    epoch = int(os.environ['SOURCE_DATE_EPOCH'])
    layer = layer_of(root, epoch)
    blobs = {}

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {'mediaType': TYPE + kind, 'digest': f'sha256:{digest}', 'size': len(data)}

    created = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(epoch))
    config = blob(json.dumps({'created': created, 'architecture': 'amd64', 'os': 'linux',
                              'config': configuration(last_stage(dockerfile, revision)),
                              'rootfs': {'type': 'layers', 'diff_ids': ['sha256:' + hashlib.sha256(layer).hexdigest()]},
                              'history': [{'created': created, 'created_by': os.path.basename(dockerfile)}]}).encode(),
                  'config.v1+json')
    packed = blob(gzip.compress(layer, 6, mtime=0), 'layer.v1.tar+gzip')
    manifest = blob(json.dumps({'schemaVersion': 2, 'mediaType': TYPE + 'manifest.v1+json', 'config': config,
                                'layers': [packed]}).encode(), 'manifest.v1+json')
    names = {'io.containerd.image.name': f'docker.io/{reference}', 'org.opencontainers.image.ref.name': reference.split(':')[1]}

    def place(descriptor):
        return 'blobs/' + descriptor['digest'].replace(':', '/')
    with tarfile.open(path, 'w', format=tarfile.GNU_FORMAT) as archive:
        add(archive, 'oci-layout', b'{"imageLayoutVersion": "1.0.0"}')
        add(archive, 'index.json', json.dumps({'schemaVersion': 2, 'mediaType': TYPE + 'index.v1+json',
                                               'manifests': [{**manifest, 'annotations': names}]}).encode())
        add(archive, 'manifest.json', json.dumps([{'Config': place(config), 'RepoTags': [reference],
                                                   'Layers': [place(packed)]}]).encode())
        for digest, data in blobs.items():
            add(archive, f'blobs/sha256/{digest}', data)
    print(f'{reference} {manifest["digest"]} {os.path.getsize(path) / 2 ** 20:.0f} MiB')


main()

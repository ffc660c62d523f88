"""How a controller is reached: the same rules, files and variables as those of cox (controller/cli/connect/connection.h)."""
import dataclasses, json, os, stat

import grpc

from .errors import NotFound, Unreachable


@dataclasses.dataclass
class Connection:
    """Empty: not known."""
    server: str = ''  # host:port
    ca: str = ''      # PEM files
    cert: str = ''
    key: str = ''
    token: str = ''
    token_file: str = ''  # read at each call


def _config_file():
    folder = os.environ.get('XDG_CONFIG_HOME') or os.path.expanduser('~/.config')
    return os.path.join(folder, 'coxswain', 'config.yaml')


def _contexts():
    """The contexts of `cox config`, and the name of the one in use."""
    path = _config_file()
    if not os.path.exists(path):
        return {}, ''
    if os.stat(path).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unreachable(f'{path} can be written by others: look at what is in it, then chmod 600 {path}')
    import yaml
    with open(path, encoding='utf-8') as file:
        read = yaml.safe_load(file) or {}
    return {context['name']: context for context in read.get('contexts') or []}, read.get('current') or ''


def _of_context(name):
    contexts, current = _contexts()
    name = name or os.environ.get('COXSWAIN_CONTEXT') or current
    if not name:
        return Connection()
    if name not in contexts:
        raise NotFound(f'there is no context {name}; there are {", ".join(contexts) or "none"}')
    fields = {field.name for field in dataclasses.fields(Connection)}
    return Connection(**{key: value for key, value in contexts[name].items() if key in fields})


def _of_environment():
    get = lambda name: os.environ.get('COXSWAIN_' + name, '')
    return Connection(get('SERVER'), get('TLS_CA'), get('TLS_CERT'), get('TLS_KEY'), get('TOKEN'), get('TOKEN_FILE'))


def _fill(found, source):
    """Takes of a source what those before it have left open. A key goes with its certificate."""
    found.ca = found.ca or source.ca
    if not found.cert and not found.key:
        found.cert, found.key = source.cert, source.key
    if not found.token and not found.token_file:
        found.token, found.token_file = source.token, source.token_file if not source.token else ''


def default_server():
    """That of `cox up`, else 127.0.0.1:7070."""
    state = os.environ.get('XDG_STATE_HOME') or os.path.expanduser('~/.local/state')
    try:
        with open(os.path.join(state, 'coxswain', 'endpoint.json'), encoding='utf-8') as file:
            return json.load(file)['grpc']
    except (OSError, ValueError, KeyError):
        return '127.0.0.1:7070'


def find_connection(given, context=''):
    """`given`: what the caller says. A context's certificates and token go to its own server alone."""
    of_context, environment = _of_context(context), _of_environment()
    sources = [given, of_context, environment] if context else [given, environment, of_context]
    found = Connection(next((source.server for source in sources if source.server), ''))
    for source in sources:
        if source is not of_context or found.server == of_context.server:
            _fill(found, source)
    found.server = found.server or default_server()
    return found


def _port_and_host(server):
    host, _, port = server.rpartition(':')
    return int(port), host.strip('[]')


def _is_loopback(host):
    return host == 'localhost' or host == '::1' or host.startswith('127.')


def _is_ours(folder):
    found = os.lstat(folder)
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077:
        return True
    raise Unreachable(f'{folder} is not a folder of user {os.geteuid()} alone: remove it, or set COXSWAIN_RUNTIME_DIR to another')


def _local_token(port):
    """The token that a controller of this user on loopback left on this machine; empty: there is none."""
    chosen = os.environ.get('COXSWAIN_RUNTIME_DIR', '')
    roots = [chosen] if chosen.startswith('/') else [f'/run/user/{os.geteuid()}/coxswain', f'/tmp/coxswain-{os.geteuid()}']
    for root in roots:
        path = os.path.join(root, str(port), 'operator-token')
        if os.path.exists(path) and _is_ours(root) and _is_ours(os.path.dirname(path)):
            return _read_secret(path)
    return ''


def _read_secret(path):
    try:
        with open(path, encoding='ascii') as file:
            return file.read().strip()
    except OSError as error:
        raise Unreachable(f'cannot read the token in {path}: {error.strerror}') from error


def find_token(connection):
    """Looked for anew at each call, because a controller that starts again leaves another one."""
    if connection.token_file:
        return _read_secret(connection.token_file)
    if connection.token:
        return connection.token
    port, host = _port_and_host(connection.server)
    return _local_token(port) if _is_loopback(host) else ''


def _credentials(connection):
    _, host = _port_and_host(connection.server)
    if not connection.ca:
        if _is_loopback(host):
            return None
        raise Unreachable(f'{connection.server} is another machine: a CA certificate says who it is (ca=, COXSWAIN_TLS_CA, or a '
                          'context of cox config)')
    read = lambda path: open(path, 'rb').read() if path else None
    return grpc.ssl_channel_credentials(read(connection.ca), read(connection.key), read(connection.cert))


# Those of common/net/grpc_endpoint.cc, which says why: a peer that is gone without a word is missed within 15 s.
_OPTIONS = [('grpc.max_receive_message_length', 64 << 20), ('grpc.max_send_message_length', 64 << 20),
            ('grpc.max_metadata_size', 64 << 10), ('grpc.keepalive_time_ms', 10000), ('grpc.keepalive_timeout_ms', 5000),
            ('grpc.keepalive_permit_without_calls', 1), ('grpc.http2.max_pings_without_data', 0),
            ('grpc.initial_reconnect_backoff_ms', 200), ('grpc.min_reconnect_backoff_ms', 10000),
            ('grpc.max_reconnect_backoff_ms', 2000), ('grpc.enable_retries', 0), ('grpc.enable_http_proxy', 0)]


def open_channel(connection, module=grpc):
    """`module`: grpc, or grpc.aio for a channel of asyncio."""
    credentials = _credentials(connection)
    if credentials is None:
        return module.insecure_channel(connection.server, options=_OPTIONS)
    return module.secure_channel(connection.server, credentials, options=_OPTIONS)

#!/usr/bin/env bash
# An authority of your own and what it signs: controller, workers, clients. Every connection of Coxswain
# is mutual TLS off loopback. Keeps an authority that is there; certificates are made anew.
#   deploy/tls/make-certificates.sh FOLDER [NAMESPACE]     default namespace: coxswain
# MORE_NAMES: further subject names of controller and workers, e.g. DNS:head.cluster,IP:10.0.0.5
# USERS: names of users, e.g. "ann bob": each gets a certificate of its own in FOLDER/user-NAME.
# Each certificate names its role (common/access/README.md): controller; supervisor, for a host and its workers; operator,
# for FOLDER/client; user.
set -euo pipefail
[[ $# -ge 1 && $# -le 2 && $1 != -* ]] || { echo "usage: deploy/tls/make-certificates.sh FOLDER [NAMESPACE]" >&2; exit 2; }
folder=$1 namespace=${2:-coxswain} more=${MORE_NAMES:+,$MORE_NAMES}
umask 077
mkdir -p "$folder"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

if [[ ! -f $folder/ca.key ]]; then
  key "$folder/ca.key"
  openssl req -x509 -new -key "$folder/ca.key" -sha256 -days 3650 -subj /CN=coxswain \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign -out "$folder/ca.crt"
fi

# NAME, extended usages, subject names
sign() {
  mkdir -p "$folder/$1"
  key "$folder/$1/tls.key"
  openssl req -new -key "$folder/$1/tls.key" -subj "/CN=coxswain-$1" |
    openssl x509 -req -sha256 -days 397 -CA "$folder/ca.crt" -CAkey "$folder/ca.key" \
      -set_serial "0x$(openssl rand -hex 16)" -out "$folder/$1/tls.crt" -extfile <(
        printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=%s\n' "$2"
        [[ -z $3 ]] || printf 'subjectAltName=%s\n' "$3") 2>/dev/null
  cp "$folder/ca.crt" "$folder/$1/ca.crt"
}

service=coxswain-controller
sign controller serverAuth,clientAuth \
  "DNS:$service,DNS:$service.$namespace,DNS:$service.$namespace.svc,DNS:localhost,IP:127.0.0.1,URI:coxswain://role/controller$more"
sign worker serverAuth,clientAuth "DNS:*.coxswain-workers.$namespace.svc,DNS:localhost,IP:127.0.0.1,URI:coxswain://role/supervisor$more"
sign client clientAuth "URI:coxswain://role/operator"
for user in ${USERS:-}; do
  [[ $user =~ ^[A-Za-z0-9._@-]{1,64}$ ]] || { echo "make-certificates.sh: no user can be named $user" >&2; exit 2; }
  sign "user-$user" clientAuth "URI:coxswain://role/user/$user"
done

echo "certificates in $folder; for Kubernetes:"
for who in controller worker; do
  echo "  kubectl -n $namespace create secret generic coxswain-$who-tls --from-file=$folder/$who"
done

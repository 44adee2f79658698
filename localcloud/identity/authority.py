"""Certificate authorities of a cloud. They exist only in the memory of its process."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import tempfile
from functools import cache
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_VALID = datetime.timedelta(days=365)
_SIGNS = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip


class Certificate(NamedTuple):
    """A server's key and certificate, in PEM."""

    key: str
    certificate: str


class Authority:
    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_SIGNS, critical=True)
        self._own = builder.sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> str:
        """The authority's certificate, in PEM, for clients that trust it."""
        return self._own.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, host: str, *addresses: str) -> Certificate:
        """A certificate for a server of this name, and of these addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        # X.509 limits the common name to 64 characters; clients check the alternative name.
        builder = _builder(_name(host[:64]), self._name, key.public_key())
        names = [x509.DNSName(host), *(x509.IPAddress(ipaddress.ip_address(each)) for each in addresses)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return Certificate(_key_pem(key), signed.public_bytes(serialization.Encoding.PEM).decode())


@cache
def web() -> Authority:
    """Signs the certificates of the cloud's HTTPS servers. Every guest trusts it, like Debian's authorities."""
    return Authority("localcloud web")


@cache
def rds() -> Authority:
    """Signs databases' certificates. As on AWS, a client trusts it only after downloading RDS's bundle."""
    return Authority("localcloud RDS Root CA")


def server_context(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w") as both:  # the ssl module reads files only
        both.write(certificate.key + certificate.certificate)
        both.flush()
        context.load_cert_chain(both.name)
    return context


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()

"""The user data that makes a machine a database server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from localcloud.identity.authority import Certificate

FOLDER = "/etc/mysql/rds"
# The privileges that RDS grants its master user: neither SUPER nor any that gives access to the machine's files.
_PRIVILEGES = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, RELOAD, PROCESS, REFERENCES, INDEX, ALTER, SHOW DATABASES, "
    "CREATE TEMPORARY TABLES, LOCK TABLES, EXECUTE, REPLICATION SLAVE, REPLICATION CLIENT, CREATE VIEW, SHOW VIEW, "
    "CREATE ROUTINE, ALTER ROUTINE, CREATE USER, EVENT, TRIGGER"
)


@dataclass(frozen=True)
class Database:
    """`parameters`: those of its parameter group that differ from the engine's defaults."""

    port: int
    user: str
    password: str
    schema: str | None
    parameters: Mapping[str, str]
    certificate: Certificate


def user_data(database: Database) -> bytes:
    """The server reads init.sql before it listens, so no client connects before the master user exists."""
    return f"""\
#!/bin/bash
set -euo pipefail
put() {{ install -D -o mysql -g mysql -m 0400 /dev/stdin "$1"; }}
{_put(f"{FOLDER}/key.pem", database.certificate.key)}
{_put(f"{FOLDER}/certificate.pem", database.certificate.certificate)}
{_put(f"{FOLDER}/init.sql", init_sql(database))}
{_put("/etc/mysql/mariadb.conf.d/99-rds.cnf", configuration(database))}
systemctl start mariadb
""".encode()


def _put(path: str, text: str) -> str:
    return f"put {path} <<'END-OF-FILE'\n{text.rstrip()}\nEND-OF-FILE"


def configuration(database: Database) -> str:
    """The parameter group's values come last and win. RDS's formulas (`{DBInstanceClassMemory/12}`) are left out."""
    given = {name: value for name, value in database.parameters.items() if "{" not in value and value.isprintable()}
    lines = [
        "[mariadbd]",
        "bind-address=0.0.0.0",
        f"port={database.port}",
        f"ssl_key={FOLDER}/key.pem",
        f"ssl_cert={FOLDER}/certificate.pem",
        f"init_file={FOLDER}/init.sql",
        "skip_name_resolve=1",
        *(f"{name}={value}" for name, value in sorted(given.items())),
    ]
    return "\n".join(lines) + "\n"


def init_sql(database: Database) -> str:
    """One statement per line. The server runs them at every start, so each must be safe to repeat."""
    user = f"{_quoted(database.user)}@'%'"
    statements = [
        f"CREATE USER IF NOT EXISTS {user} IDENTIFIED BY {_quoted(database.password)};",
        f"GRANT {_PRIVILEGES} ON *.* TO {user} WITH GRANT OPTION;",
    ]
    if database.schema:
        statements.append(f"CREATE DATABASE IF NOT EXISTS `{database.schema.replace('`', '``')}`;")
    return "\n".join(statements) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"

"""Tags of the resource kinds that moto lacks; moto keeps all other tags."""

from __future__ import annotations

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.responses import EC2Response

from localcloud.ec2 import kept


class TagActions(EC2Response):
    def create_tags(self) -> ActionResult:
        given = self._get_param("Tags", [])
        if not self._retag({tag["Key"] for tag in given}, given):
            result: ActionResult = super().create_tags()
            return result
        return EmptyResult()

    def delete_tags(self) -> ActionResult:
        if not self._retag({tag["Key"] for tag in self._get_param("Tags", [])}, []):
            result: ActionResult = super().delete_tags()
            return result
        return EmptyResult()

    def _retag(self, dropped: set[str], added: list[dict[str, str]]) -> bool:
        """Returns False and changes nothing if moto has one of the request's resources."""
        records = [kept.find(self.ec2_backend, name) for name in self._get_param("Resources", [])]
        if not records or None in records:
            return False
        for record in records:
            if record is not None:
                others = [tag for tag in record.get("Tags", []) if tag["Key"] not in dropped]
                record["Tags"] = others + [dict(tag) for tag in added]
        return True

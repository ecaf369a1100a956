"""Does the software keep its promise? Measured from what it does and from what it puts out."""

from osgt.auditing.audit import audit
from osgt.auditing.result import Audit, Check, Finding

__all__ = ["Audit", "Check", "Finding", "audit"]

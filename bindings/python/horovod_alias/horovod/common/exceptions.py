"""The exceptions that training programs catch."""

from dabke.errors import HorovodInternalError as HorovodInternalError
from dabke._frontend.elastic import HostsUpdatedInterrupt as HostsUpdatedInterrupt

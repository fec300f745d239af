"""Kubernetes' Pod, Node and PodDisruptionBudget as its API sends them, as far as they are read. The boundary.

Checked here, trusted inside. Read leniently: other fields are ignored, and null counts as left out, since Go writes
nil maps and slices so. Field names are those of the Kubernetes API reference, v1.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AliasPath, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator
from pydantic.alias_generators import to_camel

from ingest.kube.quantity import parse_quantity

Record = dict[str, object]
T = TypeVar("T")


def _quantities(value: object) -> dict[str, Fraction]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("not an object of quantities")  # noqa: TRY004  # pydantic makes a report of a ValueError only
    return {str(name): parse_quantity(str(amount)) for name, amount in value.items()}


Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
Texts = Annotated[dict[str, str], BeforeValidator(lambda value: {} if value is None else value)]
Listed = Annotated[list[T], BeforeValidator(lambda value: [] if value is None else value)]
Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""Numbers as the API has them; others cannot be sent on."""
Quantities = Annotated[Mapping[str, Fraction], PlainValidator(_quantities)]
"""Amounts by resource: cores of cpu, bytes of memory, pieces of anything else."""
_REQUESTS: Any = Field(default={}, validation_alias=AliasPath("resources", "requests"))
_LIMITS: Any = Field(default={}, validation_alias=AliasPath("resources", "limits"))


class Foreign(BaseModel):
    """An object of Kubernetes: camelCase outside, snake_case inside."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel)


class OwnerReference(Foreign):
    """One direct owner."""

    api_version: Text = ""
    kind: Text = ""
    name: Text = ""
    controller: bool | None = None


class ManagedField(Foreign):
    """Who wrote to the object last, through which subresource, and when."""

    subresource: Text = ""
    time: AwareDatetime | None = None


class Metadata(Foreign):
    """What every object says of itself."""

    name: str = Field(min_length=1)
    uid: str = Field(min_length=1)
    namespace: Text = ""
    resource_version: Text = ""
    generation: Int64 = 0
    creation_timestamp: AwareDatetime | None = None
    deletion_timestamp: AwareDatetime | None = None
    labels: Texts = {}
    annotations: Texts = {}
    owner_references: Listed[OwnerReference] = []
    managed_fields: Listed[ManagedField] = []

    def first(self, names: tuple[str, ...]) -> str | None:
        """The first of several labels or annotations that says something; labels come first."""
        found = (where[name] for name in names for where in (self.labels, self.annotations) if where.get(name))
        return next(found, None)


class ContainerSpec(Foreign):
    """One container inside a pod; of limits no entry means no limit."""

    name: Text = ""
    image: Text = ""
    restart_policy: Text = ""
    requests: Quantities = _REQUESTS
    limits: Quantities = _LIMITS


class Toleration(Foreign):
    """A taint that the pod does not mind."""

    key: Text = ""
    operator: Text = "Equal"
    value: Text = ""
    effect: Text = ""


class Volume(Foreign):
    """One volume, as far as it binds the pod to nodes; an emptyDir is on the node's disk, or in memory."""

    empty_dir: dict[str, object] | None = None
    host_path: dict[str, object] | None = None
    persistent_volume_claim: dict[str, object] | None = None


class PodSpec(Foreign):
    """What is wanted of a pod; requests and limits are those set for the pod itself."""

    node_name: Text = ""
    containers: Listed[ContainerSpec] = Field(min_length=1)
    init_containers: Listed[ContainerSpec] = []
    requests: Quantities = _REQUESTS
    limits: Quantities = _LIMITS
    overhead: Quantities = {}
    priority: Int32 | None = None
    priority_class_name: Text = ""
    tolerations: Listed[Toleration] = []
    affinity: dict[str, object] | None = None
    node_selector: Texts = {}
    topology_spread_constraints: Listed[dict[str, object]] = []
    pod_group_name: Text = Field(default="", validation_alias=AliasPath("schedulingGroup", "podGroupName"))
    volumes: Listed[Volume] = []


class Condition(Foreign):
    """Something that became true or false of the object."""

    type: Text = ""
    status: Text = ""
    last_transition_time: AwareDatetime | None = None


class ContainerStatus(Foreign):
    """When a container ended; None of one that runs or does not say."""

    finished_at: AwareDatetime | None = Field(
        default=None, validation_alias=AliasPath("state", "terminated", "finishedAt")
    )


class PodStatus(Foreign):
    """What became of a pod."""

    phase: Text = ""
    start_time: AwareDatetime | None = None
    conditions: Listed[Condition] = []
    container_statuses: Listed[ContainerStatus] = []
    init_container_statuses: Listed[ContainerStatus] = []

    def finished_at(self) -> list[AwareDatetime | None]:
        """When each container ended; None of one that runs or does not say. Of a pod that never ran its init ones."""
        return [status.finished_at for status in self.container_statuses or self.init_container_statuses]


class Pod(Foreign):
    """A pod."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus = PodStatus()


class Taint(Foreign):
    """What keeps pods away from a node."""

    key: Text = ""
    value: Text = ""
    effect: Text = ""


class Node(Foreign):
    """A node."""

    metadata: Metadata
    taints: Listed[Taint] = Field(default=[], validation_alias=AliasPath("spec", "taints"))
    capacity: Quantities = Field(default={}, validation_alias=AliasPath("status", "capacity"))
    allocatable: Quantities = Field(default={}, validation_alias=AliasPath("status", "allocatable"))
    architecture: Text = Field(default="", validation_alias=AliasPath("status", "nodeInfo", "architecture"))


class Expression(Foreign):
    """One comparison of a label."""

    key: Text = ""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Listed[str] = []

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it; a label that is absent meets NotIn and DoesNotExist."""
        if self.operator == "In":
            return labels.get(self.key) in self.values
        if self.operator == "NotIn":
            return labels.get(self.key) not in self.values
        return (self.key in labels) is (self.operator == "Exists")


class LabelSelector(Foreign):
    """Labels that all must match; an empty selector matches every object."""

    match_labels: Texts = {}
    match_expressions: Listed[Expression] = []

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels match."""
        exact = all(labels.get(key) == value for key, value in self.match_labels.items())
        return exact and all(one.holds(labels) for one in self.match_expressions)

    def query(self) -> str:
        """The same as query parameter `labelSelector` of a list."""
        said = {"Exists": "{0}", "DoesNotExist": "!{0}", "In": "{0} in ({1})", "NotIn": "{0} notin ({1})"}
        exact = [f"{key}={value}" for key, value in self.match_labels.items()]
        return ",".join(
            [*exact, *(said[one.operator].format(one.key, ",".join(one.values)) for one in self.match_expressions)]
        )


class DisruptionBudget(Foreign):
    """A PodDisruptionBudget of policy/v1: the pods it is about, without a selector none, and what it allows."""

    metadata: Metadata
    selector: LabelSelector | None = Field(default=None, validation_alias=AliasPath("spec", "selector"))
    disruptions_allowed: Int32 | None = Field(default=None, validation_alias=AliasPath("status", "disruptionsAllowed"))
    observed_generation: Int64 = Field(default=0, validation_alias=AliasPath("status", "observedGeneration"))

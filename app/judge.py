"""JUDGE: from measurements to a verdict.  Pure, so that a stored evaluation can be
judged again anywhere.
"""

from __future__ import annotations

from dataclasses import replace

from app.detectors import ADVICE, DETECTORS
from app.domain import policy as policies
from app.domain.policy import Policy
from app.domain.verdict import Finding, Label, Subject, Verdict


def judge(subject: Subject, policy: Policy = policies.DEFAULT) -> Verdict:
    """Run every detector and weigh its findings under the policy; the verdict's label
    is that of the heaviest finding.

    A detector that raises fails the judging: a check that could not run has not passed.  No
    detector runs on an invalid evaluation, which says nothing about the candidate.
    """
    _require_known(policy)
    findings: list[Finding] = []
    if subject.evaluation.valid:
        for name, detector in DETECTORS.items():
            for finding in detector.detect(subject):
                if finding.detector != name or finding.version != detector.version:
                    came = f"{finding.detector}@{finding.version}"
                    raise ValueError(
                        f"detector {name}@{detector.version} answered in the name of {came}"
                    )
                findings.append(replace(finding, label=_label(name, finding, policy)))
    label = max(
        (finding.label for finding in findings), key=lambda each: each.weight, default=Label.CLEAN
    )
    versions = {name: detector.version for name, detector in DETECTORS.items()}
    return Verdict(label=label, policy=policy.key, detectors=versions, findings=tuple(findings))


def _label(name: str, finding: Finding, policy: Policy) -> Label:
    """The label of a finding under the policy.  Advice never accuses, under any policy: the
    source's text decides nothing.
    """
    return Label.CLEAN if name in ADVICE else policy.weigh(name, finding.label)


def _require_known(policy: Policy) -> None:
    """Raise ValueError if the policy weighs a detector that does not exist: such a
    rule would have no effect.
    """
    unknown = sorted(set(policy.weights) - set(DETECTORS))
    if unknown:
        raise ValueError(f"policy {policy.key} weighs unknown detectors: {', '.join(unknown)}")

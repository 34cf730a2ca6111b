"""The sandbox around every process that runs other people's code: zygote, warden, layers.

    referee ── spawn.Zygote ──▶ zygote (imports torch once, confined) ──fork──▶ warden ──fork──▶ candidate

The warden is trusted: it makes the candidate's own namespaces, reports its pid and how it ended, and outlives it only
to remove its remains."""

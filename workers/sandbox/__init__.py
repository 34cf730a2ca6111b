"""The sandbox around every process that runs untrusted code: zygote, warden, layers.

    referee ── zygote_client.Zygote ──▶ zygote (imports torch once, confined)
    ──fork──▶ warden ──fork──▶ candidate

The warden is trusted: it makes the candidate's namespaces, reports its pid and its
end, and then cleans up after it.
"""

"""Token-level losses and mismatch correction for trainers: torch only, nothing of Assay's service.

    aggregate  from a loss matrix (rows, tokens) to a scalar
    losses     PPO dual clip, GSPO, CISPO, TOPR, REC, OPMD, DPPO
    verl_plugin, verl_autoload   estimators of app.domain.credit in verl's registry
    mismatch   rejection masks (MRS), veto, truncated importance weights (TIS), IcePop, metrics

A row is one turn's response; `mask` is 1 for its tokens.  Every ratio is named by its direction,
for example `log_train_over_rollout`.  Advantages come from app.domain.credit, which needs no
torch.  Never imported by `app`.
"""

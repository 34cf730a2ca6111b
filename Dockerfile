# Two images from one file:
#   docker build --target web    .                           web, migrations, CLI: no torch
#   docker build --target worker .                           evaluates on NVIDIA GPUs, and has CUDA's compiler
#   docker build --target worker --build-arg DEVICE=cpu .    evaluates on the CPU
#
# Everything but torch, triton and CUDA's compiler is installed from wheels whose hashes requirements.lock names.  Those
# are pinned by version alone, because their builds differ by device.  To pin the base image by digest:
#   --build-arg PYTHON_IMAGE=docker.io/library/python:3.12-slim@sha256:…

ARG PYTHON_IMAGE=docker.io/library/python:3.12-slim

FROM ${PYTHON_IMAGE} AS wheels
COPY requirements.lock .
RUN pip download --disable-pip-version-check --require-hashes --no-deps --dest /wheels --requirement requirements.lock

# What the project asks for, in the locked versions, from the folder of wheels only: no development tools.
FROM wheels AS app
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY workers workers
COPY migrations migrations
RUN pip install --no-index --find-links /wheels --prefix /installed .

# What torch imports, locked as well.
FROM wheels AS libraries
RUN pip install --no-index --find-links /wheels --prefix /installed \
    numpy filelock fsspec jinja2 networkx setuptools sympy typing-extensions

FROM ${PYTHON_IMAGE} AS web
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    LC_ALL=C.UTF-8
# A volume that is mounted there starts with this owner.
RUN useradd --system --uid 10001 --no-create-home --home-dir /nonexistent assay \
    && install --directory --owner assay /var/lib/assay
COPY --from=app /installed /usr/local
WORKDIR /opt/assay
COPY tests/zoo/problems samples/problems
COPY tests/zoo/honest samples/honest
USER assay
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --retries=3 --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=3)"]
ENTRYPOINT ["assay"]
CMD ["--help"]

FROM web AS worker
# It starts as root, and has to: it gives every candidate a uid of its own and a private root.  No candidate runs as root;
# docker-compose.yml says which capabilities that takes.
USER root
# Triton builds its launchers, and torch candidates' C++, with a compiler at run time.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ ninja-build \
    && rm -rf /var/lib/apt/lists/*
COPY --from=libraries /installed /usr/local
ARG DEVICE=cuda
ARG TORCH=2.13.0
ARG TRITON=3.7.1
ARG CUDA=13.0.2
ARG CPU_INDEX=https://download.pytorch.org/whl/cpu
RUN case "$DEVICE" in \
      cpu) pip install --no-deps --index-url "$CPU_INDEX" "torch==$TORCH" ;; \
      cuda) pip install "torch==$TORCH" "cuda-toolkit[nvcc,nvvm,crt,cccl,cudart]==$CUDA" ;; \
      *) echo "DEVICE: expected cpu or cuda, got $DEVICE" >&2; exit 2 ;; \
    esac \
    && pip install --no-deps "triton==$TRITON"
# Whether the database has heard of this container's device in the last half minute.
HEALTHCHECK --interval=60s --timeout=20s --retries=3 --start-period=60s \
    CMD ["assay", "workers", "alive"]
CMD ["workers", "run"]

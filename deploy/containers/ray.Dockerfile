# Ray with this project's wheel, for head and workers; and the same with JupyterLab.
# A wheel is built for any machine, so it needs no stage of its own.
#   make wheel && docker build -f deploy/containers/ray.Dockerfile --target ray -t reverie/ray:0.1.0 .
#                 docker build -f deploy/containers/ray.Dockerfile --target notebook -t reverie/notebook:0.1.0 .
FROM rayproject/ray:2.60.0-py311 AS ray
COPY target/wheels/reverie-*.whl /tmp/
RUN pip install --no-cache-dir /tmp/reverie-*.whl && rm -f /tmp/reverie-*.whl
# Where compose mounts models and bundles; a new volume is owned as this folder is.
USER 0
RUN install --directory --owner=1000 /reverie
USER 1000

FROM ray AS notebook
RUN pip install --no-cache-dir jupyterlab==4.6.6 ipykernel==7.1.0 pandas==2.3.3
USER 1000

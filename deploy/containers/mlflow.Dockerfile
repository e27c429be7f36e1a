# MLflow with what PostgreSQL and S3 need.
#   docker build -f deploy/containers/mlflow.Dockerfile -t reverie/mlflow:3.17.2 deploy/containers
FROM python:3.12-slim-bookworm
RUN pip install --no-cache-dir mlflow==3.17.2 psycopg2-binary==2.9.13 boto3==1.44.5 && useradd --uid 1000 --create-home mlflow
USER 1000
EXPOSE 5000
CMD ["mlflow", "server", "--host", "0.0.0.0"]

#!/bin/sh
# A scanned PDF or a picture as text, by Tesseract: `by_tesseract.sh FILE [LANGUAGES]`, such as `eng+deu`.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_THREAD_LIMIT=1
case $(head -c 5 "$1") in
%PDF-) pdftoppm -r 200 -gray -png "$1" "$folder/page" ;;
*) cp "$1" "$folder/page" ;;
esac
between=''
for page in "$folder"/page*; do
    printf '%b' "$between"
    tesseract "$page" - -l "${2:-eng}" 2>/dev/null | tr -d '\f'
    between='\f'
done

//! Tables as lines of JSON, with every kind of cell.

use super::*;
use arrow_array::types::Int32Type;
use arrow_array::{
    BinaryArray, BooleanArray, DictionaryArray, Float64Array, LargeStringArray, StringArray, TimestampSecondArray,
    builder::{FixedSizeListBuilder, ListBuilder, StringBuilder, StringDictionaryBuilder},
};
use parquet::arrow::ArrowWriter;

fn lines(columns: Vec<(&str, ArrayRef)>) -> Result<Vec<Value>, TableRowsError> {
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("rows");
    let text = String::from_utf8(jsonl(writer.into_inner().expect("a file"))?).expect("UTF-8");
    Ok(text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

fn texts(lists: &[Option<&[&str]>]) -> ListArray {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for list in lists {
        for text in list.unwrap_or_default() {
            builder.values().append_value(text);
        }
        builder.append(list.is_some());
    }
    builder.finish()
}

#[test]
fn rows_are_lines_with_every_kind_of_cell() {
    let part: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
    let structure = StructArray::from(vec![(Arc::new(Field::new("text", DataType::Utf8, true)), part)]);
    let kind: DictionaryArray<arrow_array::types::Int32Type> = vec!["b", "a"].into_iter().collect();
    let rows = lines(vec![
        ("question", Arc::new(StringArray::from(vec!["Why?", "How?"])) as ArrayRef),
        ("answer", Arc::new(LargeStringArray::from(vec![Some("So."), None]))),
        ("contexts", Arc::new(texts(&[Some(&["a", "b"]), None]))),
        ("answerable", Arc::new(BooleanArray::from(vec![true, false]))),
        ("score", Arc::new(Float64Array::from(vec![0.5, f64::NAN]))),
        ("passage", Arc::new(structure)),
        ("kind", Arc::new(kind)),
    ]);
    let first = json!({
        "question": "Why?", "answer": "So.", "contexts": ["a", "b"], "answerable": true, "score": 0.5,
        "passage": { "text": "x" }, "kind": "b"
    });
    let second = json!({
        "question": "How?", "answer": null, "contexts": null, "answerable": false, "score": null,
        "passage": { "text": "y" }, "kind": "a"
    });
    assert_eq!(rows.unwrap(), [first, second]);
}

/// A structure with a dictionary, in which the second text and the third row are null.
fn passages() -> StructArray {
    let kinds: DictionaryArray<Int32Type> = vec![Some("b"), None, Some("a"), Some("b")].into_iter().collect();
    let field = Arc::new(Field::new("kind", kinds.data_type().clone(), true));
    let nulls = BooleanArray::from(vec![Some(true), Some(true), None, Some(true)]).nulls().cloned();
    StructArray::try_new(vec![field].into(), vec![Arc::new(kinds) as ArrayRef], nulls).expect("a structure")
}

#[test]
fn dictionaries_within_structures_and_lists_are_unpacked() {
    let mut contexts = ListBuilder::new(StringDictionaryBuilder::<Int32Type>::new());
    contexts.append_value([Some("owl"), Some("bat"), Some("owl")]);
    contexts.append_null();
    contexts.append_value(Vec::<Option<&str>>::new());
    contexts.append_value([None, Some("bat")]);
    let mut pairs = FixedSizeListBuilder::new(StringDictionaryBuilder::<Int32Type>::new(), 2);
    for pair in [["x", "y"], ["y", "x"], ["x", "x"], ["y", "y"]] {
        pair.iter().for_each(|text| pairs.values().append_value(text));
        pairs.append(true);
    }
    let batch = RecordBatch::try_from_iter([
        ("passage", Arc::new(passages()) as ArrayRef),
        ("contexts", Arc::new(contexts.finish())),
        ("pair", Arc::new(pairs.finish())),
    ])
    .expect("a batch");
    let expected = [
        json!({ "passage": { "kind": "b" }, "contexts": ["owl", "bat", "owl"], "pair": ["x", "y"] }),
        json!({ "passage": { "kind": null }, "contexts": null, "pair": ["y", "x"] }),
        json!({ "passage": null, "contexts": [], "pair": ["x", "x"] }),
        json!({ "passage": { "kind": "b" }, "contexts": [null, "bat"], "pair": ["y", "y"] }),
    ];
    let rows =
        |batch: &RecordBatch| rows_of_batch(batch).expect("rows").into_iter().map(Value::Object).collect::<Vec<_>>();
    assert_eq!(rows(&batch), expected);
    assert_eq!(rows(&batch.slice(1, 3)), expected[1..], "a part of a table");
    let column = plain(batch.column(0)).expect("a structure");
    assert!(!holds_dictionary(column.data_type()), "{}", column.data_type());
}

#[test]
fn every_usual_compression_is_read() {
    use parquet::{basic::Compression, file::properties::WriterProperties};
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a mill grinds oats, and oats, and oats"; 50]));
    let batch = RecordBatch::try_from_iter([("answer", texts)]).expect("a batch");
    for codec in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::BROTLI(Default::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(Default::default()),
    ] {
        let properties = WriterProperties::builder().set_compression(codec).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("a writer");
        writer.write(&batch).expect("rows");
        let text = jsonl(writer.into_inner().expect("a file")).unwrap_or_else(|error| panic!("{codec}: {error}"));
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 50, "{codec}");
    }
}

#[test]
fn what_cannot_be_read_says_where() {
    let error = lines(vec![("when", Arc::new(TimestampSecondArray::from(vec![1])) as ArrayRef)]).expect_err("a time");
    assert!(error.to_string().contains("column `when`"), "{error}");
    assert!(jsonl(b"PAR1 and no more".to_vec()).expect_err("damaged").to_string().contains("cannot be read"));
}

/// The values of a column, as JSON.
fn cells(column: ArrayRef) -> Result<Vec<Value>, TableRowsError> {
    let batch = RecordBatch::try_from_iter([("c", column)]).expect("a batch");
    let rows = rows_of_batch(&batch)?;
    Ok(rows.into_iter().map(|mut row| row.remove("c").expect("a cell")).collect())
}

#[test]
fn integers_and_decimals_of_each_width_keep_their_value_and_nulls_stay() {
    use arrow_array::{
        Float32Array, Int8Array, Int16Array, Int32Array, Int64Array, NullArray, StringViewArray, UInt8Array,
        UInt16Array, UInt32Array, UInt64Array,
    };
    let table: Vec<(ArrayRef, Value)> = vec![
        (Arc::new(Int8Array::from(vec![Some(-128), None])), json!([-128, null])),
        (Arc::new(Int16Array::from(vec![Some(-32_768), None])), json!([-32_768, null])),
        (Arc::new(Int32Array::from(vec![Some(i32::MIN), None])), json!([i32::MIN, null])),
        (Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(0)])), json!([i64::MIN, 0])),
        (Arc::new(UInt8Array::from(vec![Some(255), None])), json!([255, null])),
        (Arc::new(UInt16Array::from(vec![Some(65_535), None])), json!([65_535, null])),
        (Arc::new(UInt32Array::from(vec![Some(u32::MAX), None])), json!([u32::MAX, null])),
        (Arc::new(UInt64Array::from(vec![Some(u64::MAX), None])), json!([u64::MAX, null])),
        (Arc::new(Float32Array::from(vec![Some(0.5), Some(f32::NAN), None])), json!([0.5, null, null])),
        (
            Arc::new(Float64Array::from(vec![Some(0.1), Some(f64::INFINITY), Some(f64::NEG_INFINITY)])),
            json!([0.1, null, null]),
        ),
        (Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])), json!([true, false, null])),
        (
            Arc::new(StringViewArray::from(vec![Some("a text that is longer than twelve"), None])),
            json!(["a text that is longer than twelve", null]),
        ),
        (Arc::new(NullArray::new(2)), json!([null, null])),
        (Arc::new(StringArray::from(Vec::<&str>::new())), json!([])),
    ];
    for (column, expected) in table {
        let kind = column.data_type().clone();
        assert_eq!(Value::Array(cells(column).unwrap()), expected, "{kind}");
    }
}

#[test]
fn lists_may_be_large_nested_and_empty() {
    use arrow_array::builder::{LargeListBuilder, StringBuilder};
    let mut large = LargeListBuilder::new(StringBuilder::new());
    large.append_value([Some("a"), None]);
    large.append_null();
    large.append_value(Vec::<Option<&str>>::new());
    assert_eq!(cells(Arc::new(large.finish())).unwrap(), [json!(["a", null]), json!(null), json!([])]);

    let mut nested = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    nested.values().append_value([Some("a")]);
    nested.values().append_value([Some("b"), Some("c")]);
    nested.append(true);
    nested.append(true);
    assert_eq!(cells(Arc::new(nested.finish())).unwrap(), [json!([["a"], ["b", "c"]]), json!([])]);

    let mut dictionaries = LargeListBuilder::new(StringDictionaryBuilder::<Int32Type>::new());
    dictionaries.append_value([Some("owl"), Some("owl")]);
    let column: ArrayRef = Arc::new(dictionaries.finish());
    assert!(holds_dictionary(column.data_type()));
    assert_eq!(cells(column).unwrap(), [json!(["owl", "owl"])]);
}

#[test]
fn only_types_with_a_dictionary_within_are_unpacked() {
    let text = || Arc::new(Field::new("item", DataType::Utf8, true));
    let coded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let item = || Arc::new(Field::new("item", coded.clone(), true));
    for (kind, expected) in [
        (DataType::Utf8, false),
        (coded.clone(), true),
        (DataType::List(text()), false),
        (DataType::List(item()), true),
        (DataType::LargeList(item()), true),
        (DataType::FixedSizeList(item(), 2), true),
        (DataType::FixedSizeList(item(), 0), false),
        (DataType::Struct(vec![text(), item()].into()), true),
        (DataType::Struct(vec![text()].into()), false),
        (DataType::List(Arc::new(Field::new("inner", DataType::Struct(vec![item()].into()), true))), true),
    ] {
        assert_eq!(holds_dictionary(&kind), expected, "{kind}");
    }
}

#[test]
fn a_type_without_a_form_in_json_is_refused_wherever_it_stands() {
    let bytes = || Arc::new(BinaryArray::from_vec(vec![b"a", b"b"])) as ArrayRef;
    let error = cells(bytes()).unwrap_err().to_string();
    assert_eq!(error, "column `c` holds the type Binary: write texts, or lists of them");
    let field = Arc::new(Field::new("raw", DataType::Binary, true));
    let structure = StructArray::from(vec![(field, bytes())]);
    assert_eq!(cells(Arc::new(structure)).unwrap_err().to_string(), error, "within a structure");
    // A column of it without any value is no obstacle.
    let empty = Arc::new(BinaryArray::from_opt_vec(vec![None, None])) as ArrayRef;
    assert_eq!(cells(empty).unwrap(), [json!(null), json!(null)]);
}

#[test]
fn a_table_has_as_many_lines_as_rows_also_without_any() {
    let none: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
    assert_eq!(lines(vec![("question", none)]).unwrap(), Vec::<Value>::new());
    let texts: Vec<String> = (0..3_000).map(|i| format!("row {i}\nwith a break")).collect();
    let rows = lines(vec![("question", Arc::new(StringArray::from(texts)) as ArrayRef)]).unwrap();
    assert_eq!((rows.len(), &rows[2_999]), (3_000, &json!({ "question": "row 2999\nwith a break" })));
}

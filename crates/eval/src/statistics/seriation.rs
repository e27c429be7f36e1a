//! The order of rows and columns in which a matrix of scores shows its clusters.
//!
//! What all rows have in common is taken out (the means of rows and columns), so that what is left is where groups of rows
//! differ on groups of columns. Rows and columns are sorted by their place on the first axis of that rest (the leading
//! singular vectors). Columns in which all rows are equal say nothing about clusters: they come last.
//!
//! Source: I. Liiv, "Seriation and matrix reordering methods: An historical overview", Statistical Analysis and Data Mining
//! 3 (2010).

/// The most steps of the power iteration, and the change at which it ends.
const STEPS: usize = 200;
const TOLERANCE: f64 = 1e-9;

/// The orders of the rows and of the columns. Equal input gives equal orders. A score that is missing counts as the mean
/// of its row.
///
/// # Panics
/// If the rows differ in length.
pub fn seriation(rows: &[Vec<Option<f64>>]) -> (Vec<usize>, Vec<usize>) {
    let columns = rows.first().map_or(0, Vec::len);
    assert!(rows.iter().all(|row| row.len() == columns), "rows of one length");
    let (row_order, column_order) = ((0..rows.len()).collect(), (0..columns).collect());
    if rows.len() < 2 || columns < 2 {
        return (row_order, column_order);
    }
    let rest = without_means(rows, columns);
    let Some((of_rows, of_columns)) = leading_vectors(&rest, columns) else { return (row_order, column_order) };
    let is_constant: Vec<bool> = (0..columns).map(|column| rest.iter().all(|row| row[column].abs() < 1e-12)).collect();
    let mut row_order: Vec<usize> = row_order;
    let mut column_order: Vec<usize> = column_order;
    row_order.sort_by(|&a, &b| of_rows[a].total_cmp(&of_rows[b]).then(a.cmp(&b)));
    column_order.sort_by(|&a, &b| {
        let constant = is_constant[a].cmp(&is_constant[b]);
        constant.then(of_columns[a].total_cmp(&of_columns[b])).then(a.cmp(&b))
    });
    (row_order, column_order)
}

/// The scores without the means of their rows and columns.
fn without_means(rows: &[Vec<Option<f64>>], columns: usize) -> Vec<Vec<f64>> {
    let filled = |row: &Vec<Option<f64>>| {
        let known: Vec<f64> = row.iter().copied().flatten().collect();
        let mean = super::mean(&known).unwrap_or_default();
        row.iter().map(|score| score.map_or(0.0, |score| score - mean)).collect::<Vec<f64>>()
    };
    let mut rest: Vec<Vec<f64>> = rows.iter().map(filled).collect();
    for column in 0..columns {
        let mean = rest.iter().map(|row| row[column]).sum::<f64>() / rest.len() as f64;
        rest.iter_mut().for_each(|row| row[column] -= mean);
    }
    rest
}

/// The leading singular vectors; none of a matrix of zeros.
fn leading_vectors(rest: &[Vec<f64>], columns: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    // The row with the largest norm is never orthogonal to the leading vector by accident of a fixed start.
    let norm = |vector: &[f64]| vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    let start = rest.iter().max_by(|a, b| norm(a).total_cmp(&norm(b)))?;
    let scaled = |vector: Vec<f64>| {
        let length = norm(&vector);
        (length > 1e-12).then(|| vector.into_iter().map(|x| x / length).collect::<Vec<f64>>())
    };
    let mut of_columns = scaled(start.clone())?;
    let mut of_rows = Vec::new();
    for _ in 0..STEPS {
        of_rows = scaled(rest.iter().map(|row| row.iter().zip(&of_columns).map(|(a, b)| a * b).sum()).collect())?;
        let mut next = vec![0.0; columns];
        for (row, weight) in rest.iter().zip(&of_rows) {
            next.iter_mut().zip(row).for_each(|(next, value)| *next += value * weight);
        }
        let next = scaled(next)?;
        let change = next.iter().zip(&of_columns).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        of_columns = next;
        if change < TOLERANCE {
            break;
        }
    }
    Some((of_rows, of_columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_of_one_cluster_come_together() {
        // Rows 0, 2, 4 are right where rows 1, 3, 5 are wrong, and the other way round; column 6 is the same for all.
        let score = |row: usize, column: usize| {
            if column == 6 { 1.0 } else { f64::from(u8::from((row + column).is_multiple_of(2))) }
        };
        let rows: Vec<Vec<Option<f64>>> =
            (0..6).map(|row| (0..7).map(|column| Some(score(row, column))).collect()).collect();
        let (row_order, column_order) = seriation(&rows);
        let parities = |order: &[usize]| order.iter().map(|i| i % 2).collect::<Vec<usize>>();
        let is_split = |parities: &[usize]| parities == [0, 0, 0, 1, 1, 1] || parities == [1, 1, 1, 0, 0, 0];
        assert!(is_split(&parities(&row_order)), "{row_order:?}");
        assert!(is_split(&parities(&column_order[..6])), "{column_order:?}");
        assert_eq!(column_order[6], 6);
        assert_eq!(seriation(&rows), (row_order, column_order));
    }

    #[test]
    fn where_there_are_no_clusters_the_order_stays() {
        for rows in [
            Vec::new(),
            vec![Vec::new()],
            vec![vec![Some(1.0), None]],
            vec![vec![Some(0.5); 3]; 4],
            vec![vec![None; 2]; 3],
        ] {
            let columns = rows.first().map_or(0, Vec::len);
            assert_eq!(seriation(&rows), ((0..rows.len()).collect(), (0..columns).collect()), "{rows:?}");
        }
    }
}

//! Tables: columns with titles, of which a narrow terminal shows fewer. It lays out and prints nothing.

use unicode_width::UnicodeWidthStr;

use super::output::clean;
use super::text::fit;

/// Between two columns.
const GAP: usize = 2;
/// What the last column gets at least.
const LEAST: usize = 12;
/// What any other keeps of its text.
const NARROWEST: usize = 4;

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A column: its title, and from what width of the terminal on it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    title: &'static str,
    align: Align,
    from: usize,
}

impl Column {
    pub(crate) fn left(title: &'static str) -> Self {
        Self { title, align: Align::Left, from: 0 }
    }

    pub(crate) fn right(title: &'static str) -> Self {
        Self { title, align: Align::Right, from: 0 }
    }

    /// Shown only where there are so many columns.
    pub(crate) fn from(self, from: usize) -> Self {
        Self { from, ..self }
    }
}

/// Rows under columns. The last column takes what room is left; one that is empty in every row is not shown.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each column. Cells are cleaned: no row becomes two.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| clean(&cell).into_owned()).collect());
    }

    /// The lines, titles first, each as its padded cells; none when there is no row.
    pub(crate) fn lines(&self, width: Option<usize>) -> Vec<Vec<String>> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let last = self.columns.len().saturating_sub(1);
        let cell = |row: &'_ Vec<String>, column: usize| row.get(column).map_or("", String::as_str).to_owned();
        let wide = |column: usize| {
            let cells = self.rows.iter().map(|row| cell(row, column).width());
            cells.max().unwrap_or(0).max(self.columns[column].title.width())
        };
        let mut shown: Vec<usize> = (0..self.columns.len())
            .filter(|column| *column == last || self.rows.iter().any(|row| !cell(row, *column).is_empty()))
            .filter(|column| width.is_none_or(|width| width >= self.columns[*column].from))
            .collect();
        let before = |shown: &[usize]| -> usize {
            shown.iter().filter(|column| **column != last).map(|column| wide(*column) + GAP).sum()
        };
        // Wide cells may still leave no room: the columns that want the widest terminal give way first.
        while width.is_some_and(|width| before(&shown) + LEAST > width) {
            let widest = shown.iter().filter(|column| **column != last && self.columns[**column].from > 0);
            let Some(widest) = widest.max_by_key(|column| self.columns[**column].from).copied() else { break };
            shown.retain(|column| *column != widest);
        }
        // The rest give way by what stands in them: the widest is cut.
        let over = width.map_or(0, |width| (before(&shown) + LEAST).saturating_sub(width));
        let mut widths: Vec<usize> = shown.iter().map(|column| wide(*column)).collect();
        let before_last = widths.len().saturating_sub(1);
        if let Some(widest) = widths[..before_last].iter_mut().max() {
            *widest = widest.saturating_sub(over).max(NARROWEST.min(*widest));
        }
        let before: usize = widths[..before_last].iter().map(|wide| wide + GAP).sum();
        let room = width.map(|width| width.saturating_sub(before).max(LEAST));
        let line = |row: &Vec<String>| -> Vec<String> {
            let cells = shown.iter().zip(&widths).map(|(column, wide)| {
                let text = cell(row, *column);
                let text = if *column == last { text } else { fit(&text, *wide).into_owned() };
                let pad = " ".repeat(wide.saturating_sub(text.width()));
                match self.columns[*column].align {
                    _ if *column == last => room.map_or(text.clone(), |room| fit(&text, room).into_owned()),
                    Align::Left => format!("{text}{pad}{}", " ".repeat(GAP)),
                    Align::Right => format!("{pad}{text}{}", " ".repeat(GAP)),
                }
            });
            cells.collect()
        };
        let titles: Vec<String> = self.columns.iter().map(|column| column.title.to_owned()).collect();
        std::iter::once(&titles).chain(&self.rows).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_terminals_show_fewer_columns_and_cut_the_last() {
        let mut grid =
            Grid::new([Column::left("a"), Column::right("cost").from(30), Column::left("x"), Column::left("title")]);
        grid.row(["1".to_owned(), "$2".to_owned(), String::new(), "a title that is\nlong".to_owned()]);
        let at = |width| -> Vec<String> { grid.lines(width).iter().map(|line| line.concat()).collect() };
        assert_eq!(at(None), ["a  cost  title", "1    $2  a title that is long"]);
        assert_eq!(at(Some(29))[1], "1  a title that is long");
        assert_eq!(at(Some(30))[1], "1    $2  a title that is long");
        assert_eq!(at(Some(18))[1], "1  a title that i…");
        assert!(Grid::new([Column::left("a")]).lines(None).is_empty());
        let mut grid = Grid::new([Column::left("NAME"), Column::left("AGE"), Column::left("TITLE")]);
        grid.row(["apple-w0t0p0:8C1B1D2E-0F2A".to_owned(), "2d".to_owned(), "a title of some length".to_owned()]);
        let lines: Vec<String> = grid.lines(Some(30)).iter().map(|line| line.concat()).collect();
        assert_eq!(lines, ["NAME         AGE  TITLE", "apple-w0t0…  2d   a title of …"]);
        let line = grid.lines(Some(60))[1].concat();
        assert!(line.contains("0F2A ") && line.width() <= 60, "{line}");
    }
}

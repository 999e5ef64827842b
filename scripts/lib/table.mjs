/** Rows as a table for a terminal: the first column to the left, all others to the right. */
export function table(rows) {
  const columns = Object.keys(rows[0] ?? {});
  const width = (column) => Math.max(column.length, ...rows.map((row) => `${row[column]}`.length));
  const line = (cell) =>
    columns.map((column, i) =>
      i ? cell(column).padStart(width(column)) : cell(column).padEnd(width(column)),
    );
  const lines = [line((column) => column), ...rows.map((row) => line((column) => `${row[column]}`))];
  return lines.map((cells) => `  ${cells.join('  ')}`).join('\n');
}

// Renders a summary of changed lines like git's --stat.
import { measureWidth, pad } from '../show/width.ts';
import type { LineCounts } from './git-diff.ts';

export type StatRow = { name: string } & (
  | LineCounts
  /** Not compared by lines: sizes in bytes. */
  | { bytesBefore: number; bytesAfter: number }
);

type Graph = { kept: string; plus: string; minus: string };

const GRAPH_COLUMNS_MIN = 6;

/** Names are never cut: they are what a person reviews. */
export function renderStat(
  rows: readonly StatRow[],
  columns: number,
  paint: (style: 'green' | 'red', text: string) => string,
): string[] {
  if (rows.length === 0) return [];
  const totals = rows.map((row) => ('added' in row ? row.added + row.deleted : 0));
  const most = Math.max(...totals);
  const nameColumns = Math.max(...rows.map(({ name }) => measureWidth(name)));
  const countColumns = Math.max(
    String(most).length,
    rows.some((row) => 'bytesBefore' in row) ? 'Bin'.length : 1,
  );
  const graphColumns = Math.max(GRAPH_COLUMNS_MIN, columns - nameColumns - countColumns - 6);
  const lines = rows.map((row) => {
    const start = ` ${pad(row.name, nameColumns)} | `;
    if ('bytesBefore' in row)
      return `${start}${pad('Bin', countColumns)} ${row.bytesBefore} -> ${row.bytesAfter} bytes`;
    const { kept, plus, minus } = drawGraph(row, most, graphColumns);
    const graph = paint('green', plus) + paint('red', minus);
    return `${start}${pad(kept, countColumns, 'left')}${graph === '' ? '' : ` ${graph}`}`;
  });
  return [...lines, renderTotal(rows)];
}

function drawGraph({ added, deleted }: LineCounts, most: number, columns: number): Graph {
  const kept = String(added + deleted);
  let [plus, minus] = [added, deleted];
  if (most > columns) {
    const scale = (count: number): number =>
      count === 0 ? 0 : 1 + Math.floor((count * (columns - 1)) / most);
    const total = Math.max(scale(added + deleted), added > 0 && deleted > 0 ? 2 : 0);
    if (added < deleted) {
      plus = scale(added);
      minus = total - plus;
    } else {
      minus = scale(deleted);
      plus = total - minus;
    }
  }
  return { kept, plus: '+'.repeat(plus), minus: '-'.repeat(minus) };
}

function renderTotal(rows: readonly StatRow[]): string {
  const sum = (key: keyof LineCounts): number =>
    rows.reduce((total, row) => total + ('added' in row ? row[key] : 0), 0);
  const [added, deleted] = [sum('added'), sum('deleted')];
  const parts = [` ${rows.length} ${rows.length === 1 ? 'file' : 'files'} changed`];
  if (added > 0 || deleted === 0)
    parts.push(`${added} ${added === 1 ? 'insertion' : 'insertions'}(+)`);
  if (deleted > 0 || added === 0)
    parts.push(`${deleted} ${deleted === 1 ? 'deletion' : 'deletions'}(-)`);
  return parts.join(', ');
}

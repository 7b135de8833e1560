// Renders timeline steps as lines: the time since the start, then the sentence; subtasks are
// indented.
import type { Paint, Style } from '../out.ts';
import { formatMoney, pluralize } from '../show/amounts.ts';
import { pad, wrap } from '../show/width.ts';
import type { Step, Totals } from './build-timeline.ts';

const STYLES: Partial<Record<Step['kind'], Style>> = {
  asked: 'bold',
  model: 'dim',
  answer: 'cyan',
  message: 'cyan',
  crash: 'red',
  ended: 'bold',
};
const TEXT_COLUMNS_MIN = 30;
const HANGING_INDENT = '  ';

export function formatOffset(ms: number): string {
  const s = ms / 1_000;
  if (s < 600) return `+${s.toFixed(1)} s`;
  if (s < 36_000) return `+${Math.floor(s / 60)} min`;
  return s < 360_000 ? `+${Math.floor(s / 3_600)} h` : `+${Math.floor(s / 86_400)} d`;
}

export function renderSteps(
  steps: readonly Step[],
  { paint, columns }: { paint: Paint; columns: number },
): string[] {
  return steps.flatMap((step) => {
    const head = `${pad(formatOffset(step.offset_ms), 9, 'left')}  ${'│  '.repeat(step.depth)}`;
    const width = Math.max(TEXT_COLUMNS_MIN, columns - head.length - HANGING_INDENT.length);
    const style = STYLES[step.kind];
    return wrap(step.text, width).map((line, i) => {
      const lead = i === 0 ? head : `${' '.repeat(11)}${'│  '.repeat(step.depth)}${HANGING_INDENT}`;
      return paint('dim', lead) + (style === undefined ? line : paint(style, line));
    });
  });
}

export function formatTotals(totals: Totals): string {
  const parts = [
    pluralize(totals.tasks, 'task'),
    pluralize(totals.model_calls, 'model call'),
    pluralize(totals.tool_calls, 'tool call'),
    pluralize(totals.tokens, 'token'),
    formatMoney(totals.cost_microusd),
  ];
  return parts.join(', ') + (totals.rehearsal ? '; a rehearsal responded, not a real model' : '');
}

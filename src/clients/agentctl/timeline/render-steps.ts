// The story's steps as lines: the time since the start, then the sentence, a part's story further
// in.
import type { Paint, Style } from '../out.ts';
import { money, some } from '../show/amounts.ts';
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
const leastTextColumns = 30;
const hang = '  ';

export function offsetText(ms: number): string {
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
    const head = `${pad(offsetText(step.offset_ms), 9, 'left')}  ${'│  '.repeat(step.depth)}`;
    const room = Math.max(leastTextColumns, columns - head.length - hang.length);
    const style = STYLES[step.kind];
    return wrap(step.text, room).map((line, i) => {
      const lead = i === 0 ? head : `${' '.repeat(11)}${'│  '.repeat(step.depth)}${hang}`;
      return paint('dim', lead) + (style === undefined ? line : paint(style, line));
    });
  });
}

export function totalsText(totals: Totals): string {
  const parts = [
    some(totals.tasks, 'task'),
    some(totals.model_calls, 'model call'),
    some(totals.tool_calls, 'tool call'),
    some(totals.tokens, 'token'),
    money(totals.cost_microusd),
  ];
  return parts.join(', ') + (totals.rehearsal ? '; a rehearsal answered, not a real model' : '');
}

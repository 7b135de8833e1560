// Converts labels to bits, and filters routes by the labels their providers may see.
import { type Fault, fault } from '../../../wire/errors.ts';
import type { Label } from '../../../wire/primitives.ts';

const LABEL_BITS: readonly Label[] = [
  'person',
  'own',
  'agent',
  'tool',
  'outside',
  'secret',
  'personal',
];

export function toMask(labels: readonly Label[]): number {
  let mask = 0;
  for (const label of labels) mask |= 1 << LABEL_BITS.indexOf(label);
  return mask;
}

export function fromMask(mask: number): Label[] {
  return LABEL_BITS.filter((_, bit) => (mask & (1 << bit)) !== 0);
}

export type RouteCheck<R> = { open: R[] } | { refused: Fault };

export function filterRoutes<R extends { provider: string; labelsAllowed: number }>(
  routes: readonly R[],
  labels: number,
): RouteCheck<R> {
  const open = routes.filter((route) => (labels & ~route.labelsAllowed) === 0);
  if (open.length > 0) return { open };
  const first = routes[0]!;
  const named = fromMask(labels & ~first.labelsAllowed);
  const providers = [...new Set(routes.map((route) => route.provider))].join(', ');
  return {
    refused: fault(
      'data_not_allowed',
      `text labelled ${named.join(', ')} may not go to ${providers}`,
      { details: { labels: named, providers } },
    ),
  };
}

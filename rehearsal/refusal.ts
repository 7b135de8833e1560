// A refusal: what a real API answers instead of an answer. Each wire gives it its vendor's shape.

export type RehearsalRefusal = {
  readonly status: number;
  readonly type: string;
  readonly message: string;
  readonly param?: string | null;
  readonly code?: string | null;
  readonly retryAfterSeconds?: number;
};

export type JsonRecord = { readonly [key: string]: unknown };

export function isJsonRecord(value: unknown): value is JsonRecord {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/**
 * Runs checks in order and gives the first refusal, as the real APIs name one mistake at a time.
 */
export function findFirstRefusal(
  ...checks: (() => RehearsalRefusal | undefined)[]
): RehearsalRefusal | undefined {
  for (const check of checks) {
    const refusal = check();
    if (refusal) return refusal;
  }
  return undefined;
}

/** The first refusal over the items of a list. */
export function findItemRefusal<T>(
  items: readonly T[],
  check: (item: T, index: number) => RehearsalRefusal | undefined,
): RehearsalRefusal | undefined {
  for (let index = 0; index < items.length; index++) {
    const refusal = check(items[index]!, index);
    if (refusal) return refusal;
  }
  return undefined;
}

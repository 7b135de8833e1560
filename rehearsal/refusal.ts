// Defines a refusal: the error response of a real API. Each wire formats it as its vendor does.

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
 * Runs checks in order and returns the first refusal: the real APIs report one error at a time.
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

/** Returns the refusal of the first item that has one. */
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

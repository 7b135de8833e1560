// A refusal: what a real API answers instead of an answer. Each wire gives it its vendor's shape.

export type Refusal = {
  readonly status: number;
  readonly type: string;
  readonly message: string;
  readonly param?: string | null;
  readonly code?: string | null;
  readonly retryAfterSeconds?: number;
};

export type Json = { readonly [key: string]: unknown };

export function isJson(value: unknown): value is Json {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/**
 * Runs checks in order and gives the first refusal, as the real APIs name one mistake at a time.
 */
export function firstRefusal(...checks: (() => Refusal | undefined)[]): Refusal | undefined {
  for (const check of checks) {
    const refusal = check();
    if (refusal) return refusal;
  }
  return undefined;
}

/** The first refusal over the items of a list. */
export function refusalIn<T>(
  items: readonly T[],
  check: (item: T, index: number) => Refusal | undefined,
): Refusal | undefined {
  for (let index = 0; index < items.length; index++) {
    const refusal = check(items[index]!, index);
    if (refusal) return refusal;
  }
  return undefined;
}

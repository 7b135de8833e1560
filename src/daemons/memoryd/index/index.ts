// The recall index of memoryd: tables in its store, kept by its transactions.
export { addToIndex } from './add.ts';
export type { QuestionVector } from './meaning.ts';
export { WEIGHTS } from './rank.ts';
export type { IndexedRecord } from './record-terms.ts';
export { removeFromIndex } from './remove.ts';
export type { Hit, SearchOptions } from './search.ts';
export { search } from './search.ts';
export { INDEX_TABLES } from './tables.ts';

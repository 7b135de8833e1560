// Where a box that works on a layer for a person has its directories.
import { WORKSPACE } from './rules.ts';

export const PLACES = {
  merged: WORKSPACE,
  /** The record instead, if it is a copy. */
  upper: '/layer/upper',
  lower: '/layer/lower',
  target: '/target',
  staging: '/staging',
  undo: '/undo',
  scratch: '/scratch',
} as const;

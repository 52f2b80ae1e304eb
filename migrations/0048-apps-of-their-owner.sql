-- A program that only its owner uses has no redirect address. It also stays when its owner is erased, and can then do nothing.
alter table client drop constraint client_check;

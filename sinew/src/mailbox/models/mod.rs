//! Models of mailboxes.
//!
//! | file | what is modelled | what is abstracted |
//! | --- | --- | --- |
//! | `word` | [`Word`](super::word::Word): posts, the owner's turns, the end | letters are numbers whose content is watched memory; a thread that activates the mailbox is its owner and runs it at once |

mod word;
